//! Cells: what the workers of a process share. Bytes by name, each with a version, so that a cell can be replaced
//! by who has seen its current content, and by nobody else.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Cells that all workers share. They outlast a change of configuration.
pub trait Cells {
    /// A cell's content; none where nobody has written it.
    ///
    /// # Errors
    /// The host does not allow it.
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed>;

    /// Writes a cell, and says whether it did: not, where the cell is no longer as `over` says.
    ///
    /// # Errors
    /// The host does not allow it.
    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed>;
}

/// What a cell must hold to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Whatever it holds, or nothing.
    Anything,
    /// Nothing: nobody has written it yet.
    Nothing,
    /// The content of this version. A cell that nobody has written has none, and is written all the same.
    Version(u32),
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValue {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version, for [`Over::Version`].
    pub version: u32,
}

/// The host refused a call: its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFailed(pub u32);

/// Cells that behave as Envoy's do: for tests and tools.
#[derive(Debug, Clone, Default)]
pub struct CellMap {
    cells: RefCell<BTreeMap<String, SharedValue>>,
    versions: std::cell::Cell<u32>,
}

impl CellMap {
    /// How many cells there are, and how many bytes they hold.
    pub fn size(&self) -> (usize, usize) {
        let cells = self.cells.borrow();
        (cells.len(), cells.values().map(|cell| cell.bytes.len()).fold(0, usize::saturating_add))
    }
}

impl Cells for CellMap {
    fn shared(&self, cell: &str) -> Result<Option<SharedValue>, HostFailed> {
        Ok(self.cells.borrow().get(cell).cloned())
    }

    fn share(&self, cell: &str, content: &[u8], over: Over) -> Result<bool, HostFailed> {
        let mut cells = self.cells.borrow_mut();
        let held = cells.get(cell).map(|held| held.version);
        let fits = match (over, held) {
            (Over::Anything, _) | (_, None) => true,
            (Over::Nothing, Some(_)) => false,
            (Over::Version(seen), Some(held)) => seen == held,
        };
        if fits {
            let version = self.versions.get().wrapping_add(1).max(1);
            self.versions.set(version);
            cells.insert(cell.to_owned(), SharedValue { bytes: content.to_vec(), version });
        }
        Ok(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_replaced_only_by_who_has_seen_it() {
        let cells = CellMap::default();
        let version = || cells.shared("a").unwrap().unwrap().version;
        assert_eq!(cells.shared("a"), Ok(None));
        assert_eq!(cells.share("a", b"1", Over::Nothing), Ok(true));
        assert_eq!(cells.share("a", b"2", Over::Nothing), Ok(false));
        let first = version();
        assert_eq!(cells.share("a", b"3", Over::Version(first)), Ok(true));
        assert_eq!(cells.share("a", b"4", Over::Version(first)), Ok(false));
        assert_eq!(cells.share("a", b"5", Over::Anything), Ok(true));
        assert_eq!(cells.shared("a").unwrap().unwrap().bytes, b"5");
        assert_eq!(cells.share("b", b"", Over::Version(first)), Ok(true));
        assert_eq!(cells.size(), (2, 1));
    }
}
