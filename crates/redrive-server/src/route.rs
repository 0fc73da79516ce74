//! A route is written down once: how it is called, what it needs, what it takes and answers. The router, the matrix of scopes
//! and the OpenAPI document are made from that.

use axum::handler::Handler;
use axum::routing::{MethodRouter, on};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::Server;
use crate::caller::Scope;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it says whether the server lives.
    Nothing,
    /// A caller with this scope.
    Scope(Scope),
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An answer that a route may give.
pub(crate) struct Answers {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media: &'static str,
    pub(crate) schema: Option<SchemaOf>,
}

/// A parameter in the query.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) schema: SchemaOf,
}

/// A route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) need: Need,
    /// What generated clients call it.
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) answers: Vec<Answers>,
    pub(crate) handler: MethodRouter<Server>,
}

impl Route {
    pub(crate) fn new<H, T>(
        method: Method,
        path: &'static str,
        need: Need,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route
    where
        H: Handler<T, Server>,
        T: 'static,
    {
        // The methods of the table are all methods that axum can filter by.
        let filter = method.clone().try_into().unwrap_or(axum::routing::MethodFilter::GET);
        let handler = on(filter, handler);
        Route {
            method,
            path,
            need,
            id,
            about,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            handler,
        }
    }

    /// A route that looks.
    pub(crate) fn get<H: Handler<T, Server>, T: 'static>(
        path: &'static str,
        scope: Scope,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route {
        Route::new(Method::GET, path, Need::Scope(scope), id, about, handler)
    }

    /// A route that does something.
    pub(crate) fn post<H: Handler<T, Server>, T: 'static>(
        path: &'static str,
        scope: Scope,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route {
        Route::new(Method::POST, path, Need::Scope(scope), id, about, handler)
    }

    /// It takes a body of this shape.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Route {
        self.body = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// It may be given this parameter in the query.
    pub(crate) fn query<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Route {
        self.parameters.push(Parameter { name, about, schema: |generator| generator.subschema_for::<T>() });
        self
    }

    /// It answers with this status and JSON of this shape.
    pub(crate) fn answers<T: JsonSchema>(mut self, status: u16, about: &'static str) -> Route {
        let schema: SchemaOf = |generator| generator.subschema_for::<T>();
        self.answers.push(Answers { status, about, media: "application/json", schema: Some(schema) });
        self
    }
}
