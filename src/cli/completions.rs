//! `completions` and `man`: what shells and readers need to know of the command line, made from the command line itself.

use super::output::{self, fail};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::process::ExitCode;

/// Prints the completions for a shell.
#[derive(Args)]
pub struct Completions {
    /// The shell that reads them
    shell: Shell,
}

/// Prints a manual page.
#[derive(Args)]
pub struct Manual {
    /// The command that the page is about, such as `keys create` [default: all of it]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Completions {
    pub fn run(self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "sluicegate", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}

impl Manual {
    pub fn run(self) -> ExitCode {
        let mut command = super::Cli::command();
        command.build();
        for name in &self.command {
            match command.find_subcommand(name) {
                Some(found) => command = found.clone(),
                None => return fail(&format!("there is no command \"{}\"", name.escape_default()), super::EXIT_USAGE),
            }
        }
        match page(command) {
            Ok(text) => output::print(&text),
            Err(error) => fail(&format!("the page cannot be made: {error}"), 1),
        }
    }
}

fn page(command: Command) -> std::io::Result<String> {
    let name = command.get_bin_name().unwrap_or("sluicegate").replace(' ', "-");
    let mut page = Vec::new();
    // A date would make two builds of one source differ.
    Man::new(command).title(name).date("").manual("Sluicegate").render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
