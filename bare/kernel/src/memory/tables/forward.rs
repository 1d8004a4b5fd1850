//! Methods of a type that is compiled for each granule, as a trait that does not name the granule.

/// Declares the trait, and implements it for the type: by the type's own methods of the same names, and by what stands behind `and`.
macro_rules! forward {
    (
        $(#[$note:meta])*
        pub(crate) trait $name:ident: $bound:ident $(+ $more:ident)* for $implementor:ty {
            $(fn $method:ident(&$this:ident $(, $argument:ident: $kind:ty)*) $(-> $answer:ty)?;)*
        } and {
            $($(#[$own_note:meta])* fn $own:ident(&$self:ident $(, $given:ident: $own_kind:ty)*) -> $own_answer:ty $body:block)*
        }
    ) => {
        $(#[$note])*
        pub(crate) trait $name: $bound $(+ $more)* {
            $(fn $method(&self $(, $argument: $kind)*) $(-> $answer)?;)*
            $($(#[$own_note])* fn $own(&self $(, $given: $own_kind)*) -> $own_answer;)*
        }

        impl<G: Granule + Send + Sync> $name for $implementor {
            // A type's own method comes before a trait's of the same name.
            $(
                fn $method(&$this $(, $argument: $kind)*) $(-> $answer)? {
                    $this.$method($($argument),*)
                }
            )*
            $(fn $own(&$self $(, $given: $own_kind)*) -> $own_answer $body)*
        }
    };
}

pub(super) use forward;
