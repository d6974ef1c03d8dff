/** Where a value of a setting ends in a line. All functions here are linear in the length of the line. */

/** Values that say that there is none, and paths of files. */
const HARMLESS_VALUE =
  /^(?:true|false|null|nil|<nil>|none|undefined|<unset>|<removed>|\/(?:[a-z0-9._-]+\/)+[a-z0-9._-]+)[,;)\]}]*$/;
const OPENING = /(\\{0,15})(["'`])/y;
const MAX_NESTED_QUOTES = 15;
/** Braces around more than this are a group of settings. */
const MAX_GROUP = 256;

/** The part of a line that is secret. */
export interface FoundValue {
  readonly start: number;
  readonly end: number;
}

/**
 * The value that begins at a place of a line: quoted (the quotes may be escaped, as in JSON that is in a quoted string), a list in
 * brackets, or without a space. `undefined`: no value, or a group of settings, which follow one by one.
 * @param takesLine whether an unquoted value has spaces and ends with the line
 */
export function findValue(line: string, from: number, takesLine = false): FoundValue | undefined {
  OPENING.lastIndex = from;
  const quote = OPENING.exec(line);
  if (quote !== null) {
    const start = OPENING.lastIndex;
    const end = endOfQuoted(line, start, { escapes: (quote[1] ?? '').length, quote: quote[2] ?? '' });
    return end === start ? undefined : { start, end };
  }
  const first = line.charAt(from);
  if (first === '[') return valueUntil(line, from + 1, ']');
  if (first === '{') {
    const group = line.slice(from + 1, from + MAX_GROUP).split('}', 1)[0] ?? '';
    return group === '' || /[:=]/.test(group) ? undefined : { start: from + 1, end: from + 1 + group.length };
  }
  const end = takesLine ? line.length : endOfWord(line, from);
  return end === from || HARMLESS_VALUE.test(line.slice(from, end).trimEnd())
    ? undefined
    : { start: from, end };
}

/** Whether a value is known not to be secret. */
export function isHarmlessValue(value: string): boolean {
  return HARMLESS_VALUE.test(value);
}

function valueUntil(line: string, start: number, bracket: string): FoundValue | undefined {
  const at = line.indexOf(bracket, start);
  const end = at < 0 ? line.length : at;
  return end === start ? undefined : { start, end };
}

function endOfWord(line: string, from: number): number {
  let end = from;
  while (end < line.length && !isSpace(line.charCodeAt(end))) end++;
  return end;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d) || code === 0xa0;
}

/**
 * A quote within `k` escaped levels is written with so many backslashes before it that their number modulo `2k + 2` is `k`; more end
 * no value, and fewer end a string around it. Without an end, the value was cut off: it takes the rest of the line.
 */
function endOfQuoted(
  line: string,
  start: number,
  { escapes, quote }: { readonly escapes: number; readonly quote: string },
): number {
  const period = 2 * Math.min(escapes, MAX_NESTED_QUOTES) + 2;
  let before = 0;
  for (let at = start; at < line.length; at++) {
    const char = line.charAt(at);
    if (char === '\\') before++;
    else {
      if (char === quote && (before < escapes || before % period === escapes))
        return at - Math.min(before, escapes);
      before = 0;
    }
  }
  return line.length;
}
