//! `PolicyState`: the visible state of a policy, for views and metrics.

/// The figures on which a policy bases its grants. A field that the policy does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicyState {
    /// D0: the delay without collection, in us.
    pub without_us: Option<f64>,
    /// B: the highest delay of a window, in us.
    pub bound_us: Option<f64>,
    /// I: the integral part of the controller, -1 to 0.
    pub integral: Option<f64>,
    /// S: the work per commit without collection, in us.
    pub commit_us: Option<f64>,
    /// rho: the utilisation of the workers without collection, 0 to 1.
    pub utilisation: Option<f64>,
    /// Whether nothing is collected now, in order to measure the delay without collection.
    pub is_control: bool,
}
