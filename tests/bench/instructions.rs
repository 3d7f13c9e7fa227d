//! For counting instructions: makes as many decisions as the argument says, over one million callers, and nothing else after the
//! warm-up. Run twice under an instruction counter with different arguments; the difference is the cost of decisions alone.

mod support;

fn main() {
    // Cargo passes flags of its own; the number is ours.
    let decisions = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(0_u32);
    let mut scene = support::Scene::new();
    scene.warm();
    let admitted = (0..decisions).filter(|_| scene.decide()).count();
    println!("{admitted} of {decisions} decisions admitted");
}
