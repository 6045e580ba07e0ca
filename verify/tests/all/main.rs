//! Tests of the verifier, as one binary.

mod blind_spots;
mod build;
mod cases;
mod causes;
mod certificate;
mod docs;
mod driver;
mod fixes;
mod generate;
mod growth;
mod large;
mod minimal;
mod must_not_flag;
mod oracle;
mod overlooked;
mod pdl;
mod random;
mod report;
mod report_dot;
mod report_drawing;
mod report_html;
mod rules;
mod rules_nodes;
mod session;
mod session_oracle;
mod untouched;
