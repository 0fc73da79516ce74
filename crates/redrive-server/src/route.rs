//! A route is written down once: how it is called, what it needs, what it takes and answers. The router, the matrix of scopes
//! and the OpenAPI document are made from that (ADR 0042).

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::Server;
use crate::caller::Scope;
use crate::problem::Code;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it says whether the server lives.
    Nothing,
    /// A caller with this scope.
    Scope(Scope),
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An answer that a route may give.
pub(crate) struct Answers {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media: &'static str,
    /// Absent: it has no body.
    pub(crate) schema: Option<SchemaOf>,
}

/// A body that a route takes.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) schema: SchemaOf,
    /// Otherwise there may be none.
    pub(crate) required: bool,
    pub(crate) media: &'static str,
}

/// The media type of bodies, unless a route says otherwise.
const JSON: &str = "application/json";

/// A route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) need: Need,
    /// What generated clients call it.
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    /// An object whose properties are the parameters of the query.
    pub(crate) query: Option<SchemaOf>,
    /// What is said of its path parameters, other than that they are names.
    pub(crate) places: Vec<(&'static str, SchemaOf)>,
    pub(crate) body: Option<Takes>,
    pub(crate) answers: Vec<Answers>,
    pub(crate) problems: Vec<Code>,
    /// Whether a key is looked at.
    pub(crate) guarded: bool,
    /// Whether a request whose first try ended nobody knows how is run again.
    pub(crate) rerun: bool,
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
        let guarded = !method.is_safe();
        // The methods of the table are all methods that axum can filter by.
        let filter = method.clone().try_into().unwrap_or(MethodFilter::GET);
        Route {
            method,
            path,
            need,
            id,
            about,
            query: None,
            places: Vec::new(),
            body: None,
            answers: Vec::new(),
            problems: Vec::new(),
            guarded,
            rerun: false,
            handler: on(filter, handler),
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

    /// A route that puts something in its place.
    #[allow(dead_code)] // Until the first noun that has one.
    pub(crate) fn put<H: Handler<T, Server>, T: 'static>(
        path: &'static str,
        scope: Scope,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route {
        Route::new(Method::PUT, path, Need::Scope(scope), id, about, handler)
    }

    /// A route that changes a part.
    #[allow(dead_code)] // Until the first noun that has one.
    pub(crate) fn patch<H: Handler<T, Server>, T: 'static>(
        path: &'static str,
        scope: Scope,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route {
        Route::new(Method::PATCH, path, Need::Scope(scope), id, about, handler)
    }

    /// A route that takes something away.
    #[allow(dead_code)] // Until the first noun that has one.
    pub(crate) fn delete<H: Handler<T, Server>, T: 'static>(
        path: &'static str,
        scope: Scope,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Route {
        Route::new(Method::DELETE, path, Need::Scope(scope), id, about, handler)
    }

    /// It takes a body of this shape.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Route {
        self.body =
            Some(Takes { schema: |generator| generator.subschema_for::<T>(), required: true, media: JSON });
        self
    }

    /// It takes a body of text, of this media type.
    pub(crate) fn takes_text(mut self, media: &'static str) -> Route {
        self.body =
            Some(Takes { schema: |generator| generator.subschema_for::<String>(), required: true, media });
        self
    }

    /// It may be given a body of this shape.
    pub(crate) fn may_take<T: JsonSchema>(mut self) -> Route {
        self.body =
            Some(Takes { schema: |generator| generator.subschema_for::<T>(), required: false, media: JSON });
        self
    }

    /// It may be given the parameters of this shape in the query: the one that its handler reads by `Query`.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Route {
        self.query = Some(|generator| T::json_schema(generator));
        self
    }

    /// Says what a parameter in its path looks like.
    pub(crate) fn place<T: JsonSchema>(mut self, name: &'static str) -> Route {
        self.places.push((name, |generator| T::json_schema(generator)));
        self
    }

    /// It answers with this status and JSON of this shape.
    pub(crate) fn answers<T: JsonSchema>(mut self, status: u16, about: &'static str) -> Route {
        let schema: SchemaOf = |generator| generator.subschema_for::<T>();
        self.answers.push(Answers { status, about, media: JSON, schema: Some(schema) });
        self
    }

    /// It answers with this status and text of this media type.
    pub(crate) fn answers_text(mut self, status: u16, media: &'static str, about: &'static str) -> Route {
        let schema: SchemaOf = |generator| generator.subschema_for::<String>();
        self.answers.push(Answers { status, about, media, schema: Some(schema) });
        self
    }

    /// It answers with this status and no body.
    #[allow(dead_code)] // Until the first noun that has one.
    pub(crate) fn empty(mut self, status: u16, about: &'static str) -> Route {
        self.answers.push(Answers { status, about, media: "", schema: None });
        self
    }

    /// It may end in these problems, beside those that every route may.
    pub(crate) fn problems(mut self, codes: &[Code]) -> Route {
        self.problems.extend(codes);
        self
    }

    /// What it does and that its key is completed are there together or not at all: what is not completed was not done.
    pub(crate) fn completes_its_key(mut self) -> Route {
        self.rerun = true;
        self
    }

    /// It may be called again without harm, or waits for long: a key is not looked at.
    #[allow(dead_code)] // Until the first noun that has one.
    pub(crate) fn unguarded(mut self) -> Route {
        self.guarded = false;
        self
    }
}
