/** Longer texts are truncated. */
const MAX_CHARS = 2000;
/** Stands for a line break inside a text that must be one line. */
const BREAK = '↵';
/**
 * Control characters (C0, DEL, C1), which control a terminal; format characters (bidirectional overrides, zero-width
 * characters, tags), which make a text look like another; line and paragraph separators; lone surrogates.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const UNPRINTABLE_IN_LINES = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Untrusted text (of a node, a pod, helm, a chart, a peer) as one line that cannot control the terminal, pose as a line of
 * this program, or look like another text. The limit is in an object, so that the compiler refuses `map(printable)`,
 * which would pass an index as limit.
 */
export function printable(
  text: string,
  { maxChars = MAX_CHARS }: { readonly maxChars?: number } = {},
): string {
  return text.slice(0, maxChars).replace(/\r?\n/g, BREAK).replace(UNPRINTABLE, '?');
}

/** Like `printable`, for a text that may have several lines, such as a configuration or the output of a program. */
export function printableLines(
  text: string,
  { maxChars = MAX_CHARS }: { readonly maxChars?: number } = {},
): string {
  return text.slice(0, maxChars).replaceAll('\r\n', '\n').replace(UNPRINTABLE_IN_LINES, '?');
}

/** Equivalent JSON in which all unprintable characters are escaped. */
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
