//! The answer for machines: `redrive/simulation.v1`.

use redrive_policy::Lang;
use redrive_server::shape::simulation::Simulation;
use serde::{Serialize, Serializer};

use super::{SimulationView, assumed};

#[derive(Serialize)]
struct Contract {
    schema: &'static str,
    #[serde(flatten)]
    simulation: Simulation,
    assumptions: Vec<String>,
}

impl Serialize for SimulationView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Contract {
            schema: "redrive/simulation.v1",
            simulation: Simulation::new(&self.simulation, self.since, self.until, self.seed),
            assumptions: assumed::sentences(&self.simulation, self.seed, Lang::En),
        }
        .serialize(serializer)
    }
}
