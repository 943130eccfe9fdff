//! Memory for a board: zeroed as shared memory is, and not initialised otherwise.

#![allow(dead_code, reason = "not every test needs all of it")]

pub mod small;

use board::{Board, Header, Parts, Sizes};

/// Values of a type of the board, all bytes zero.
fn zeroed<T: Copy>(count: usize) -> Vec<T> {
    // SAFETY: the board's types are integers, and enums and bools for which zero is a value.
    vec![unsafe { std::mem::zeroed() }; count]
}

macro_rules! declare_memory {
    ($sizes:ident; $($name:ident: $record:ty, $count:expr;)*) => {
        pub struct Memory {
            header: Vec<Header>,
            $($name: Vec<$record>,)*
        }

        impl Memory {
            pub fn new($sizes: Sizes) -> Memory {
                let mut memory = Memory { header: zeroed(1), $($name: zeroed($count),)* };
                memory.board().clear();
                memory
            }

            pub fn board(&mut self) -> Board<'_> {
                Board::on(Parts { header: &mut self.header[0], $($name: &mut self.$name,)* })
            }

            /// The size of all slices.
            pub fn bytes(&self) -> usize {
                size_of_val(&self.header[..]) $(+ size_of_val(&self.$name[..]))*
            }
        }
    };
}

board::slices!(declare_memory, sizes);
