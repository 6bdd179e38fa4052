//! Prints the compatibility table, tab-separated.

fn main() {
    for row in weir_nginx::compatibility() {
        println!(
            "{}\t{}\t{}\t{:?}\t{}\t{}",
            row.module, row.name, row.contexts, row.status, row.default, row.note
        );
    }
}
