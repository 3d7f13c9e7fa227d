//! What the stand-in took while Redis was down is given back there.

use crate::support::client::render;
use crate::support::*;

#[test]
fn a_client_that_leaves_while_it_is_held_in_an_outage_frees_its_place() {
    let nobody = free_port();
    let gateway = Setup::new(format!(
        "[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"redis://127.0.0.1:{nobody}\"]\n\
         [[routes]]\nmatch = \"*\"\nlimits = [{{ rate = \"1/1000day\", algorithm = \"leaky_bucket\", queue = 2 }}]\n"
    ))
    .start();
    let allowed = |gateway: &Gateway| gateway.metric("sluicegate_decisions_total", &[("result", "allowed")]);
    let held = |gateway: &Gateway| {
        let before = allowed(gateway);
        let mut client = gateway.connect();
        client.send(render("GET", "/", &[], b""));
        wait_until("it was decided", || allowed(gateway) == before + 1.0);
        client
    };
    assert_eq!(gateway.get("/").status, 200);
    for _ in 0..3 {
        let waiting = held(&gateway);
        assert_eq!(gateway.get("/").status, 429, "both places are taken");
        waiting.reset();
        gateway.wait_idle();
    }
    assert!(!gateway.log().contains("not given back"), "{}", gateway.log());
}
