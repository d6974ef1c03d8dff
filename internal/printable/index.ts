/**
 * Ground: the one place that makes the text of others fit for a terminal. Views use it where they take a text from the wire,
 * and the CLI's host once more on all that it writes.
 */
export { formatBytes } from './format-bytes.ts';
export { printable, printableJson, printableLines } from './printable.ts';
