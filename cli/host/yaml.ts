/** Words that YAML 1.1 or 1.2 reads as something else than text, without regard to case. */
const RESERVED = new Set(['true', 'false', 'yes', 'no', 'on', 'off', 'y', 'n', 'null', 'nan', 'inf']);
/** YAML 1.1 reads this as a number: its digits before the exponent are optional. */
const EXPONENT = /^e[-+]?[0-9]+$/i;
/** Begins with a letter, and has no character with a meaning in YAML; a colon only inside a word. */
const PLAIN = /^[A-Za-z_](?:[A-Za-z0-9_./+@-]|:(?=[A-Za-z0-9_./+@-]))*(?: [A-Za-z0-9_./+@-]+)*$/;

/**
 * A value in YAML, block style, as `kubectl -o yaml` prints objects. The value must be one that JSON can express. A
 * YAML parser then reads the same value from this text as a JSON parser reads from `JSON.stringify()`.
 */
export function renderYaml(value: unknown): string {
  const plain: unknown = JSON.parse(JSON.stringify(value ?? null));
  return lines(plain).join('\n');
}

function lines(value: unknown): readonly string[] {
  if (Array.isArray(value) && value.length > 0)
    return value.flatMap((item) => nested('- ', lines(item), isBlock(item)));
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0)
    return Object.entries(value).flatMap(([key, item]) => member(text(key), item));
  return [scalar(value)];
}

function member(key: string, item: unknown): readonly string[] {
  if (!isBlock(item)) return [`${key}: ${scalar(item)}`];
  // Lists stand under their key without indentation, as kubectl writes them.
  const indent = Array.isArray(item) ? '' : '  ';
  return [`${key}:`, ...lines(item).map((line) => `${indent}${line}`)];
}

function nested(
  marker: string,
  [first = '', ...others]: readonly string[],
  isDeep: boolean,
): readonly string[] {
  return [`${marker}${first}`, ...(isDeep ? others.map((line) => `  ${line}`) : others)];
}

function isBlock(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

function scalar(value: unknown): string {
  if (typeof value === 'string') return text(value);
  return Array.isArray(value) ? '[]' : JSON.stringify(value);
}

/** A JSON string is also valid YAML. It is used where YAML would read a plain text as something else. */
function text(value: string): string {
  const isText = PLAIN.test(value) && !RESERVED.has(value.toLowerCase()) && !EXPONENT.test(value);
  return isText ? value : JSON.stringify(value);
}
