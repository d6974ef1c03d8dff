/** More of one text tells a person nothing. */
const MAX_CHARS = 2000;
/** What a line break inside a text that is to be one line becomes. */
const BREAK = '↵';
/**
 * Control characters (C0, DEL, C1: what steers a terminal), format characters (bidirectional overrides, zero-width ones,
 * tags: what makes a text look like another), line and paragraph separators, halves of characters.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const UNPRINTABLE_IN_LINES = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Text that this program did not write itself – of a node, a pod, helm, a chart, a peer – as one line that can neither steer
 * the terminal, nor pose as a line of ours, nor look like another text. The limit is in an object, so that the compiler
 * refuses `map(printable)`, which would hand on an index as limit.
 */
export function printable(
  text: string,
  { maxChars = MAX_CHARS }: { readonly maxChars?: number } = {},
): string {
  return text.slice(0, maxChars).replace(/\r?\n/g, BREAK).replace(UNPRINTABLE, '?');
}

/** The same for a text that has lines of its own: a configuration, the last words of a program. */
export function printableLines(
  text: string,
  { maxChars = MAX_CHARS }: { readonly maxChars?: number } = {},
): string {
  return text.slice(0, maxChars).replaceAll('\r\n', '\n').replace(UNPRINTABLE_IN_LINES, '?');
}

/** JSON that means the same and is as harmless on a terminal: what JSON itself does not escape, escaped. */
export function printableJson(json: string): string {
  return json.replace(UNPRINTABLE, (char) =>
    [...char]
      .flatMap(utf16Of)
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

function utf16Of(char: string): readonly number[] {
  return Array.from({ length: char.length }, (_, index) => char.charCodeAt(index));
}
