//! `PolicyState`: what can be seen of a policy, for people who watch.

/// What a policy goes by. Fields that it has not are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicyState {
    /// D0: delay without collection, in us.
    pub without_us: Option<f64>,
    /// B: the highest delay of a window, in us.
    pub bound_us: Option<f64>,
    /// I: the integral part of the controller, -1 to 0.
    pub integral: Option<f64>,
    /// S: work per commit without collection, in us.
    pub commit_us: Option<f64>,
    /// rho: the part of the workers that is at work without collection, 0 to 1.
    pub utilisation: Option<f64>,
    /// Nothing is collected now, so that the delay without collection is measured.
    pub is_control: bool,
}
