//! Windows that take the definition of a named window: `OVER (w ROWS …)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowDefinition, NamedWindowExpr, Select, WindowSpec, WindowType,
    visit_expressions_mut,
};

use super::names::folded;
use super::syntax::unwrap_frame;

/// Turns the offsets in the frames of named windows back into numbers.
pub(super) fn unwrap_frames(select: &mut Select) {
    for NamedWindowDefinition(_, definition) in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = definition {
            spec.window_frame.iter_mut().for_each(unwrap_frame);
        }
    }
}

/// Puts the parts of named windows into the windows that name them.
pub(super) fn spread(select: &mut Select) {
    let named: Vec<(String, WindowSpec)> = select
        .named_window
        .iter()
        .filter_map(|NamedWindowDefinition(name, definition)| match definition {
            NamedWindowExpr::WindowSpec(spec) => Some((folded(name), spec.clone())),
            NamedWindowExpr::NamedWindow(_) => None,
        })
        .collect();
    if named.is_empty() {
        return;
    }
    let _ = visit_expressions_mut(&mut select.projection, |expr| {
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            && let Some(name) = spec.window_name.as_ref().map(folded)
            && let Some((_, base)) = named.iter().find(|(known, _)| *known == name)
        {
            spec.window_name = None;
            spec.partition_by.clone_from(&base.partition_by);
            if spec.order_by.is_empty() {
                spec.order_by.clone_from(&base.order_by);
            }
        }
        ControlFlow::<()>::Continue(())
    });
}
