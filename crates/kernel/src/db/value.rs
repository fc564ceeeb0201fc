//! Values that go into statements and come out of rows, independent of the driver. Counters are
//! checked against `COUNTER_MAX` where they enter, so they always fit a signed column.

use model::{
    AllocationId, BootId, CommandId, CommandState, GatewayId, JournalId, Lane, Lifecycle, NodeId, Outcome, PoolId,
    PrincipalId, ReservationId, Role, ServerTimeMs, SessionEnd, SiteId, TenantId, TokenId,
};

/// One value of a statement or a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Something that can be bound to a placeholder.
pub trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

/// Something a column can be read as; `None` means the column holds something else.
pub trait FromValue: Sized {
    fn from_value(value: Value<'_>) -> Option<Self>;
}

/// The arguments of a statement, in the order of its placeholders.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::db::ToValue::to_value(&$value)),*] };
}
pub use args;

macro_rules! integers {
    ($($name:ty),+) => { $(
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Int(i64::try_from(*self).expect("counters are checked against COUNTER_MAX at entry"))
            }
        }
        impl FromValue for $name {
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value { Value::Int(number) => Self::try_from(number).ok(), _ => None }
            }
        }
    )+ };
}
integers!(i64, u64, u32, i32, usize);

macro_rules! ids {
    ($($name:ident),+) => { $(
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(self.as_str())
            }
        }
        impl FromValue for $name {
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value { Value::Text(text) => Some(Self::new(text)), _ => None }
            }
        }
    )+ };
}
ids!(
    AllocationId,
    BootId,
    CommandId,
    GatewayId,
    JournalId,
    NodeId,
    PoolId,
    PrincipalId,
    ReservationId,
    SiteId,
    TenantId,
    TokenId
);

macro_rules! names {
    ($($name:ident),+) => { $(
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(self.name())
            }
        }
        impl FromValue for $name {
            fn from_value(value: Value<'_>) -> Option<Self> {
                match value { Value::Text(text) => Self::parse(text), _ => None }
            }
        }
    )+ };
}
names!(CommandState, Lane, Lifecycle, Outcome, Role, SessionEnd);

impl ToValue for ServerTimeMs {
    fn to_value(&self) -> Value<'_> {
        Value::Int(self.0)
    }
}

impl FromValue for ServerTimeMs {
    fn from_value(value: Value<'_>) -> Option<Self> {
        i64::from_value(value).map(ServerTimeMs)
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            _ => None,
        }
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => bytes.try_into().ok(),
            _ => None,
        }
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (*self).to_value()
    }
}
