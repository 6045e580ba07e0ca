//! What the compiler says to programs that leave a join out.

#[test]
fn misuse_does_not_compile_and_the_messages_help() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
