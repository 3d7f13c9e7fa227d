// tests/clients/client.mjs
// Calls a rate-limited API as it asks to be called: node client.mjs URL, the key in the environment as API_KEY.

import { setTimeout as sleep } from "node:timers/promises";

const MAX_ATTEMPTS = 8; // of one call
const MAX_WAIT_MS = 120_000; // told to wait longer than this, the caller should do something else meanwhile
const FIRST_BACKOFF_MS = 500; // doubled at each attempt, where the server names no wait
const MAX_BACKOFF_MS = 30_000;
const MAX_CALLS = 1000; // of the demonstration below
const TIMEOUT_MS = 30_000;

/** The milliseconds that the server asks to wait, or undefined where it names none. */
function advisedWait(headers) {
  for (const [name, unit] of [["retry-after-ms", 1], ["retry-after", 1000]]) {
    const value = (headers.get(name) ?? "").trim();
    if (/^\d+$/.test(value)) return Number(value) * unit;
  }
  return undefined;
}

/** Exponential, with full jitter, so that clients that failed together do not come back together. */
function backoff(attempt) {
  return Math.random() * Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
}

/** Status, headers and body; status 0 when there was no answer at all. */
async function send(url, headers) {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { status: response.status, headers: response.headers, body: await response.text() };
  } catch (error) {
    console.log(`no answer: ${error.message}`);
    return { status: 0, headers: new Headers(), body: "" };
  }
}

/** Sends a GET until it is answered with something other than a refusal; tells each attempt's status as well. */
export async function call(url, key) {
  const headers = { accept: "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const statuses = [];
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const answer = await send(url, headers);
    statuses.push(answer.status);
    if (![0, 429, 503].includes(answer.status)) {
      console.log(`attempt ${attempt}: ${answer.status}`);
      return { statuses, body: answer.body };
    }
    let wait = advisedWait(answer.headers);
    if (wait === undefined) {
      // Also a cost that no waiting makes fit: there the server names no wait on purpose.
      if (answer.body.includes('"cost_exceeds_limit"')) {
        throw new Error("the request costs more than its limit can ever allow");
      }
      wait = backoff(attempt);
    } else {
      // Never earlier than asked, and a little later, each client by another time.
      wait += Math.random() * Math.min(1000, 0.1 * wait);
    }
    if (wait > MAX_WAIT_MS) throw new Error(`told to wait ${Math.round(wait / 1000)} s`);
    console.log(`attempt ${attempt}: ${answer.status}, waiting ${(wait / 1000).toFixed(2)} s`);
    await sleep(Math.ceil(wait));
  }
  throw new Error(`refused ${MAX_ATTEMPTS} times`);
}

/** Calls until one call was refused and then let in. */
async function main(url) {
  if (url === undefined) throw new Error("usage: client.mjs URL");
  for (let calls = 0; calls < MAX_CALLS; calls += 1) {
    const { statuses } = await call(url, process.env.API_KEY);
    if (statuses.at(-1) !== 200) throw new Error(`answered ${statuses.at(-1)}`);
    if (statuses.includes(429)) return;
  }
  throw new Error("never refused");
}

main(process.argv[2]).catch((reason) => {
  console.error(`gave up: ${reason.message}`);
  process.exitCode = 1;
});
