/** Makes text of other programs and peers safe for a terminal, and formats sizes. */
export { counted } from './counted.ts';
export { formatBytes } from './format-bytes.ts';
export { printable, printableJson, printableLines } from './printable.ts';
