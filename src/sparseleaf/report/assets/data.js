"use strict";

// The data of the report: base64 of deflate of JSON.

async function readPayload(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// Rows of a CSR matrix as pairs of id and value.
function entriesOf(matrix, row, values) {
  const entries = [];
  for (let i = matrix.offsets[row]; i < matrix.offsets[row + 1]; i++) entries.push([matrix.ids[i], values[i]]);
  return entries;
}
