"""Knowledge bases: facts, names, tables and the Gaifman graph."""
