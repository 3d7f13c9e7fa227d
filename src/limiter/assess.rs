//! From a request as sent to what it may do and what it draws on, before any limit is asked.
//!
//! Every check of the journey in its order: denied and allowed networks, the form of target and path, the route, the
//! caller. The first that fails is the rejection; it costs one on the address layer, so that probing is not free, and a
//! wrong key costs one on the failure budget too. Nothing is answered, logged or counted here, and no clock is read.

use super::rejection::Rejection;
use crate::config::model::RouteAuth;
use crate::policy::facts::{Draw, Facts};
use crate::policy::limit::TierIndex;
use crate::policy::{ANONYMOUS, Policy};
use crate::request::caller::{Identity, WrongKey};
use crate::request::client::{Client, contains};
use crate::request::credential;
use crate::request::host::Target;
use crate::request::path::{NormalPath, normalise};
use crate::request::route::Parameters;
use crate::time::Timestamp;
use http::{HeaderMap, Version, header};
use std::net::IpAddr;

/// A request as sent.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The other end of the connection.
    pub peer: IpAddr,
    pub method: &'a str,
    pub version: Version,
    /// The request target as received.
    pub target: &'a [u8],
    /// HTTP/2's `:authority`.
    pub authority: Option<&'a [u8]>,
    pub headers: &'a HeaderMap,
}

/// Whom a request comes from: by the key it carries, or as somebody recorded who no longer has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// By the key in the request.
    Sent,
    /// By a key of the policy, an index into its keys; its dates and its scope hold as ever.
    Key(usize),
    /// A consumer of the policy, by whichever of its keys.
    Consumer(usize),
    /// Somebody of a tier, nobody knows who: counted by address.
    Tier(TierIndex),
    /// Without a key.
    Nobody,
    /// With a key that is wrong.
    WrongKey,
}

/// Target and path in their normal form, or what is wrong with them.
#[derive(Debug)]
pub struct Address<'a> {
    pub target: Target<'a>,
    pub path: NormalPath<'a>,
}

/// What was found out about a request.
#[derive(Debug)]
pub struct Assessment<'a> {
    pub facts: Facts<'a>,
    pub draw: Draw,
    /// Why it does not go on, whatever its limits say.
    pub rejection: Option<Rejection>,
    /// The `reason` of the metric, when the key is why.
    pub auth_failure: Option<&'static str>,
    /// An index into the policy's keys.
    pub key: Option<usize>,
    pub trusted_peer: bool,
}

/// The normal form of where a request goes; the error is for the client.
pub fn address<'a>(policy: &Policy, inputs: &Inputs<'a>) -> Result<Address<'a>, &'static str> {
    let target = Target::parse(inputs.method, inputs.version, inputs.target, inputs.authority, inputs.headers)?;
    let path = normalise(target.path, policy.paths)?;
    Ok(Address { target, path })
}

/// Assesses a request whose target was read by [`address`].
pub fn assess<'a>(
    policy: &'a Policy,
    inputs: &Inputs<'a>,
    address: &'a Result<Address<'a>, &'static str>,
    now: Timestamp,
) -> Assessment<'a> {
    assess_as(policy, inputs, address, Claim::Sent, now)
}

/// As [`assess`], for a caller who is known in another way.
pub fn assess_as<'a>(
    policy: &'a Policy,
    inputs: &Inputs<'a>,
    address: &'a Result<Address<'a>, &'static str>,
    claim: Claim,
    now: Timestamp,
) -> Assessment<'a> {
    let client = policy.address_rules.client(inputs.peer, inputs.headers);
    let mut assessment = Assessment {
        facts: Facts {
            address: client.address,
            group: client.group,
            method: inputs.method,
            host: address.as_ref().map_or("", |address| &address.target.host),
            route: None,
            parameters: Parameters::new(),
            consumer: None,
            tier: ANONYMOUS,
            headers: inputs.headers,
        },
        draw: Draw::Everything,
        rejection: None,
        auth_failure: None,
        key: None,
        trusted_peer: client.trusted_peer,
    };
    if let Err(refusal) = assessment.admit(policy, inputs, address, (client, claim), now) {
        assessment.rejection = Some(refusal.rejection);
        assessment.draw = refusal.draw;
    }
    if contains(&policy.exempt, client.address) {
        assessment.draw = Draw::Nothing;
    }
    assessment
}

struct Refusal {
    rejection: Rejection,
    draw: Draw,
}

impl Refusal {
    fn new(rejection: Rejection) -> Self {
        Self { rejection, draw: Draw::Address }
    }
}

impl<'a> Assessment<'a> {
    /// Rejects for a reason that was found outside, unless the request is rejected already.
    pub fn reject(&mut self, rejection: Rejection) {
        if self.rejection.is_none() {
            self.rejection = Some(rejection);
            if self.draw != Draw::Nothing {
                self.draw = Draw::Address;
            }
        }
    }

    /// Gives a request that is not valid another reason for it.
    pub fn rename(&mut self, rejection: Rejection) {
        if let Some(Rejection::BadRequest(_)) = self.rejection {
            self.rejection = Some(rejection);
        }
    }

    fn admit(
        &mut self,
        policy: &'a Policy,
        inputs: &Inputs<'a>,
        address: &'a Result<Address<'a>, &'static str>,
        (client, claim): (Client, Claim),
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if contains(&policy.deny, client.address) {
            return Err(Refusal { rejection: Rejection::Forbidden, draw: Draw::Nothing });
        }
        if !policy.admits_address(client.address) {
            return Err(Refusal::new(Rejection::Forbidden));
        }
        let address = address.as_ref().map_err(|reason| Refusal::new(Rejection::BadRequest(reason)))?;
        let preflight_for = preflight_method(inputs);
        self.find_route(policy, address, preflight_for)?;
        if preflight_for.is_some() {
            self.draw = Draw::Address;
            return Ok(());
        }
        self.identify(policy, inputs, address, claim, now)
    }

    /// A preflight takes the route of the request it asks for.
    fn find_route(
        &mut self,
        policy: &'a Policy,
        address: &'a Address<'a>,
        preflight_for: Option<&str>,
    ) -> Result<(), Refusal> {
        let path = address.path.matching();
        let host = &address.target.host;
        let wanted = preflight_for.and_then(|method| policy.router.find(host, method, path));
        let found = wanted.or_else(|| policy.router.find(host, self.facts.method, path));
        let found = found.ok_or(Refusal::new(Rejection::RouteNotFound))?;
        self.facts.route = Some(found.route);
        self.facts.parameters = found.parameters;
        Ok(())
    }

    fn identify(
        &mut self,
        policy: &'a Policy,
        inputs: &Inputs<'a>,
        address: &'a Address<'a>,
        claim: Claim,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let route = &policy.routes[self.facts.route.expect("the route was found before the caller")];
        if route.auth != RouteAuth::None {
            match claim {
                Claim::Consumer(consumer) => self.is_consumer(policy, consumer),
                Claim::Tier(tier) => self.facts.tier = tier,
                Claim::Sent | Claim::Key(_) | Claim::Nobody | Claim::WrongKey => {
                    let identity = identity(policy, inputs, address, claim, now);
                    self.recognise(policy, inputs, address, identity, route.auth)?;
                }
            }
        }
        if route.tiers.as_ref().is_some_and(|tiers| !tiers.contains(&self.facts.tier)) {
            return Err(Refusal::new(Rejection::Forbidden));
        }
        Ok(())
    }

    fn recognise(
        &mut self,
        policy: &'a Policy,
        inputs: &Inputs<'a>,
        address: &'a Address<'a>,
        identity: Identity,
        auth: RouteAuth,
    ) -> Result<(), Refusal> {
        match identity {
            Identity::Anonymous if auth == RouteAuth::Required || !policy.anonymous => {
                Err(self.refuse_key("missing", Refusal::new(Rejection::MissingKey)))
            }
            Identity::Anonymous => Ok(()),
            Identity::Ambiguous => {
                let rejection = Rejection::BadRequest("The request carries two different API keys.");
                Err(self.refuse_key("ambiguous", Refusal::new(rejection)))
            }
            Identity::Wrong(wrong) => {
                let refusal = Refusal { rejection: Rejection::InvalidKey, draw: Draw::WrongKey };
                Err(self.refuse_key(wrong.reason(), refusal))
            }
            Identity::Known(index) => {
                let record = policy.keys.record(index);
                self.key = Some(index);
                self.is_consumer(policy, record.consumer());
                if record.permits(inputs.method, address.path.matching(), self.facts.address) {
                    return Ok(());
                }
                Err(self.refuse_key("forbidden", Refusal::new(Rejection::Forbidden)))
            }
        }
    }

    fn is_consumer(&mut self, policy: &Policy, consumer: usize) {
        self.facts.consumer = Some(consumer);
        self.facts.tier = policy.consumers[consumer].tier;
    }

    fn refuse_key(&mut self, reason: &'static str, refusal: Refusal) -> Refusal {
        self.auth_failure = Some(reason);
        refusal
    }
}

/// What the keys say of a claim; one that is not about keys is without one.
fn identity(policy: &Policy, inputs: &Inputs<'_>, address: &Address<'_>, claim: Claim, now: Timestamp) -> Identity {
    match claim {
        Claim::Sent => {
            let presented = credential::find(&policy.sources, inputs.headers, address.target.query);
            policy.keys.identify(&presented, now)
        }
        Claim::Key(index) => policy.keys.standing(index, now),
        Claim::WrongKey => Identity::Wrong(WrongKey::Invalid),
        Claim::Nobody | Claim::Consumer(_) | Claim::Tier(_) => Identity::Anonymous,
    }
}

/// The method that a CORS preflight asks for; absent when the request is none (Fetch standard, CORS-preflight request).
pub fn preflight_method<'a>(inputs: &Inputs<'a>) -> Option<&'a str> {
    let is_preflight = inputs.method == "OPTIONS" && inputs.headers.contains_key(header::ORIGIN);
    let wanted = inputs.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD).filter(|_| is_preflight)?;
    wanted.to_str().ok()
}
