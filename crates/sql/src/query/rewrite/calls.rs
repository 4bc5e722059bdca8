//! Makes syntax trees of calls and literals.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, UnaryOperator, Value,
};

/// Returns a call of a function by its exact name.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let part = ObjectNamePart::Identifier(Ident::with_quote('"', name));
    let args =
        arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName(vec![part]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns a literal of text.
pub(crate) fn text_literal(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// Returns a cast as a call.
pub(super) fn cast_call(expr: Expr, type_name: &str) -> Expr {
    call("__cast", vec![expr, text_literal(type_name)])
}

/// Returns a number as the cast of its digits to the type that PostgreSQL gives it.
pub(super) fn number(digits: &str) -> Expr {
    let plain = digits.replace('_', "");
    let unsigned = plain.trim_start_matches('-');
    let whole = unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let name = match plain.parse::<i64>() {
        Ok(value) if whole && i32::try_from(value).is_ok() => "integer",
        Ok(_) if whole => "bigint",
        _ => "numeric",
    };
    cast_call(text_literal(&plain), name)
}

/// Returns the plain arguments of a call.
pub(super) fn arguments(function: &Function) -> Option<Vec<Expr>> {
    match &function.args {
        FunctionArguments::None => Some(Vec::new()),
        FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect(),
        FunctionArguments::Subquery(_) => None,
    }
}

/// Returns the name of a function without `pg_catalog`, in lower case unless it was quoted.
pub(super) fn function_name(name: &ObjectName) -> Option<String> {
    let parts: Option<Vec<String>> = name
        .0
        .iter()
        .map(|part| {
            part.as_ident().map(|ident| match ident.quote_style {
                Some(_) => ident.value.clone(),
                None => ident.value.to_ascii_lowercase(),
            })
        })
        .collect();
    match parts?.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == "pg_catalog" => Some(name.clone()),
        _ => None,
    }
}

/// Turns the cast of an integer's digits back into the number.
pub(super) fn unwrap_number(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    if function_name(&function.name).as_deref() != Some("__cast") {
        return;
    }
    let digits = match arguments(function).as_deref() {
        Some([Expr::Value(digits), Expr::Value(name)]) => match (&digits.value, &name.value) {
            (Value::SingleQuotedString(digits), Value::SingleQuotedString(name))
                if name == "integer" || name == "bigint" =>
            {
                digits.clone()
            }
            _ => return,
        },
        _ => return,
    };
    let plain = digits.trim_start_matches('-');
    if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = Expr::value(Value::Number(plain.to_owned(), false));
        *expr = match plain == digits {
            true => number,
            false => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) },
        };
    }
}
