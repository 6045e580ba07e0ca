//! A graph that becomes another one, and the driver's handles of a graph.

use streamweir_hal::driver::{ErrorClass, ExecHandle, GraphHandle};
use streamweir_hal::owned::{Fences, OwnedGraph};

use super::{About, Graph, Parts};
use crate::error::{During, Error, Result};

impl Graph {
    /// Makes the instance do what a new capture does. What launches in flight refer to is
    /// held until they have ended. Where the driver refuses, the graph is as before.
    pub(crate) fn renew(&mut self, parts: Parts, about: About) -> Result<()> {
        self.update(&parts.graph)?;
        let Some((exec, old)) = self.held.take() else {
            return Ok(());
        };
        let fences = self.in_flight();
        let mut next = Self::new(self.device.clone(), exec, parts, about);
        // The instance goes behind the launches that it has had.
        *next.last.get_mut() = self.last.get_mut().take();
        // The group is asked for conflicts as long as they are in flight.
        let old = (old, self.footprint.clone());
        self.device.reclaim.retire(fences, Box::new(old));
        *self = next;
        Ok(())
    }

    fn update(&mut self, graph: &OwnedGraph) -> Result<()> {
        // SAFETY: the exclusive borrow keeps others away. What `graph` refers to is in
        // the parts that it comes with, which become this graph's.
        let Err(error) = (unsafe { self.exec().update(graph) }) else {
            return Ok(());
        };
        let name = self.about.name.clone();
        if error.class == ErrorClass::GraphUpdateRefused {
            return Err(Error::NotUpdated {
                graph: name.to_string(),
                source: error,
            });
        }
        // Nobody knows what the driver has changed: an instance of what was there before
        // takes the place of that one.
        match self.parts().graph.instantiate() {
            Ok(exec) => {
                let fences = self.in_flight();
                if let Some((held, _)) = &mut self.held {
                    let old = std::mem::replace(held, exec);
                    self.device.reclaim.retire(fences, Box::new(old));
                }
            }
            Err(_) => self.unsure = true,
        }
        Err(error).during(|| format!("updating graph \"{name}\""))
    }

    /// What passes when the launches so far have ended.
    fn in_flight(&mut self) -> Fences {
        let last = self.last.get_mut().as_ref();
        last.map(|last| last.fence(&self.device.reclaim))
            .into_iter()
            .collect()
    }

    /// The driver's graph, as it was captured.
    ///
    /// # Safety
    /// The handle is used while this graph is there and has not been recaptured; it is
    /// read, and neither changed nor destroyed. What is instantiated from it by hand
    /// takes no turns: whoever launches it orders it with everything that touches the
    /// same bytes, and keeps this graph until it has ended.
    pub unsafe fn raw_graph(&self) -> GraphHandle {
        self.parts().graph.handle()
    }

    /// The driver's instantiated graph.
    ///
    /// # Safety
    /// As for [`raw_graph`](Self::raw_graph). A launch by hand takes no turns, and is
    /// over before this graph is dropped.
    pub unsafe fn raw_exec(&self) -> ExecHandle {
        self.exec().handle()
    }
}
