//! Every name and number on the wire against a file of its own, so that a number that is changed or used
//! again for another meaning shows as a change of that file. `UPDATE_EXPECT=1` writes them anew, which is
//! right only for additions.

use expect_test::expect_file;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::fmt::Write;

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
const PACKAGE: &str = "bettercompute.node.v1";

#[test]
fn no_number_on_the_wire_changes_its_meaning() {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors");
    let ours: Vec<_> = set.file.iter().filter(|file| file.package() == PACKAGE).collect();
    assert!(ours.len() >= 2, "the descriptors of this package are there");
    for file in ours {
        let mut text = String::new();
        for service in &file.service {
            line(&mut text, format_args!("service {}", service.name()));
            for method in &service.method {
                let input = streamed(method.client_streaming(), method.input_type());
                let output = streamed(method.server_streaming(), method.output_type());
                line(&mut text, format_args!("  {} {input} -> {output}", method.name()));
            }
        }
        file.enum_type.iter().for_each(|item| enumeration(&mut text, item));
        file.message_type.iter().for_each(|item| message(&mut text, item));
        let name = file.name().rsplit('/').next().and_then(|name| name.strip_suffix(".proto")).expect("a .proto file");
        expect_file![format!("numbers/{name}.txt")].assert_eq(&text);
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("writing to a string");
}

fn streamed(stream: bool, name: &str) -> String {
    format!("{}{}", if stream { "stream " } else { "" }, short(name))
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn enumeration(text: &mut String, item: &EnumDescriptorProto) {
    line(text, format_args!("enum {}", item.name()));
    for value in &item.value {
        line(text, format_args!("  {} {}", value.number(), value.name()));
    }
    for range in &item.reserved_range {
        line(text, format_args!("  reserved {} to {}", range.start(), range.end()));
    }
}

fn message(text: &mut String, item: &DescriptorProto) {
    line(text, format_args!("message {}", item.name()));
    for field in &item.field {
        let oneof = match field.oneof_index {
            Some(index) if !field.proto3_optional() => format!(" of {}", item.oneof_decl[index as usize].name()),
            _ => String::new(),
        };
        let (label, kind) = (label(field), kind(field));
        line(text, format_args!("  {} {} {label}{kind}{oneof}", field.number(), field.name()));
    }
    for range in &item.reserved_range {
        line(text, format_args!("  reserved {} to {}", range.start(), range.end() - 1));
    }
    item.enum_type.iter().for_each(|nested| enumeration(text, nested));
    item.nested_type.iter().for_each(|nested| message(text, nested));
}

fn label(field: &FieldDescriptorProto) -> &'static str {
    match field.label() {
        Label::Repeated => "repeated ",
        _ if field.proto3_optional() => "optional ",
        _ => "",
    }
}

fn kind(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => short(field.type_name()).to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_ascii_lowercase(),
    }
}
