import { messageStartOf, NextLines } from './next-lines.ts';
import { isSecretName } from './secret-names.ts';
import { isHarmlessValue } from './secret-values.ts';
import { redactSettings, REMOVED } from './settings.ts';

/**
 * Removes what looks like a secret from the text of logs, events and configurations. No file in a support bundle is
 * meant to contain secrets. This module finds secrets that a program wrote in the wrong place, and removes too much
 * rather than too little.
 */

/** Secrets that can be recognized by their own shape. */
const SHAPES: readonly RegExp[] = [
  // PEM, also in JSON (with \n as two characters) and in lines that begin with a time.
  /-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z0-9 ]{0,16}-----(?:(?!-----BEGIN )[\s\S]){0,32768}?-----END [A-Z0-9 ]{0,64}-----/g,
  // "-----BEGIN" and PKCS #1, PKCS #8 and SEC 1 in base64.
  /LS0tLS1CRUdJTi[A-Za-z0-9+/_=-]{16,}/g,
  /\bM(?:C4CAQAwBQYDK2V|IGHAgEAMBMGByqG|IG2AgEAMBAGByqG|II[A-Z][A-Za-z0-9+/]{2}[IA]BAAKC|II[A-Za-z0-9+/]{3}IBADANBgkqhkiG9w0BAQEFAASC|HcCAQEEI)[A-Za-z0-9+/_=-]{20,}/g,
  /\bAGE-SECRET-KEY-1[A-Z0-9]{20,}/gi,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?/g,
  /\b(?:Bearer|Basic|Negotiate|Digest)\s{1,4}[A-Za-z0-9._~+/=:-]{6,}/gi,
  // Bootstrap tokens of Kubernetes.
  /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk_live_|rk_live_|sk-|npm_|dckr_pat_|dop_v1_|hvs\.|hvb\.|pypi-|SG\.|ya29\.)[A-Za-z0-9._-]{12,}/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  // The begin of a PEM key whose end is missing. The last shape, because it takes words after the key with it: the begin of another
  // secret among them would leave the rest of that secret in the text.
  /-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z0-9 ]{0,16}-----(?:[A-Za-z0-9+/=\s\\]|<removed>){0,32768}/g,
];
const KEY_END = /-----END [A-Z0-9 ]{0,32}PRIVATE KEY[A-Z0-9 ]{0,16}-----/;
const KEY_BODY = /[A-Za-z0-9+/=\\]/;
/** What `printable` writes for the end of a line. */
const BREAK = '↵';
/** Only the last line of a key is shorter. */
const MIN_KEY_LINE = 16;
/** User and password in a URL. What is before the hash of an image is its name. */
const USER_INFO = /(:\/\/)[^\s"'<>/@:]{0,256}:[^\s"'<>]{1,256}@(?!sha256:)/g;
/** A token in the place of a user. `git` is what everybody uses there. */
const USER = /(:\/\/)(?!git@)[^\s"'<>/@:?#]{1,1024}@(?!sha256:)/g;
/** Flags of argument lists in JSON. */
const FLAG = /^--?[a-z][\w-]*$/i;
/** Members that have the value of what the object is named. */
const VALUE_MEMBER = /^(?:value|data|content|text|plain|raw)$/i;
const NAME_MEMBER = /^(?:name|key)$/i;
/** Shorter numbers are counts and sizes. */
const LEAST_SECRET_NUMBER = 1000;

/** Removes everything that looks like a secret from a text. Lines that are JSON stay JSON. */
export function redactText(text: string): string {
  return text.includes(BREAK) ? redactLines(redactPrintable(text)) : redactLines(text);
}

/** Removes secrets from the lines that became one line when a text was made printable. */
function redactPrintable(text: string): string {
  return text
    .split('\n')
    .map((line) => redactLines(line.replaceAll(BREAK, '\n')).replaceAll('\n', BREAK))
    .join('\n');
}

function redactLines(text: string): string {
  const lines = redactShapes(text).split('\n');
  redactKeyEnds(lines);
  const next = new NextLines();
  return lines.map((line) => redactLine(next.redact(line))).join('\n');
}

/**
 * Removes the rest of private keys whose begin is not in the text, because only the last lines of a log were read. Each line may
 * begin with a time.
 */
function redactKeyEnds(lines: string[]): void {
  for (const [end, line] of lines.entries()) {
    const found = KEY_END.exec(line);
    if (found === null) continue;
    const [text] = found;
    lines[end] = withoutKeyBody(line.slice(0, found.index)) + REMOVED + line.slice(found.index + text.length);
    for (let at = end - 1, least = 1; at >= 0; at--, least = MIN_KEY_LINE) {
      const before = lines[at]?.trimEnd() ?? '';
      const rest = withoutKeyBody(before);
      if (before.length - rest.length < least) break;
      lines[at] = rest + REMOVED;
    }
  }
}

/** The text without the characters of base64 at its end. */
function withoutKeyBody(text: string): string {
  let length = text.length;
  while (length > 0 && KEY_BODY.test(text.charAt(length - 1))) length--;
  return text.slice(0, length);
}

/** Removes everything that looks like a secret from a JSON value. `bigint` becomes text, bytes become their number. */
export function redactJson(value: unknown, name = ''): unknown {
  const isSecret = isSecretName(name);
  if (typeof value === 'string')
    return isSecret && value !== '' && !isHarmlessValue(value) ? REMOVED : redactText(value);
  if (typeof value === 'number') return isSecret && value >= LEAST_SECRET_NUMBER ? REMOVED : value;
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) {
    const values: readonly unknown[] = value;
    return values.map((each, index) => redactJson(each, flagOf(values[index - 1], each) ?? name));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value as Readonly<Record<string, unknown>>).filter(
    ([key]) => !key.startsWith('$'),
  );
  const named = entries.find(([key, each]) => NAME_MEMBER.test(key) && typeof each === 'string')?.[1];
  const owner = isSecret || typeof named !== 'string' ? name : named;
  return Object.fromEntries(
    entries.map(([key, each]) => [
      redactShapes(key),
      redactJson(each, VALUE_MEMBER.test(key) && isSecretName(owner) ? owner : key),
    ]),
  );
}

/** The flag before a value in a list of arguments. */
function flagOf(before: unknown, value: unknown): string | undefined {
  if (typeof before !== 'string' || typeof value !== 'string' || value.startsWith('-')) return undefined;
  return FLAG.test(before) ? before : undefined;
}

function redactLine(line: string): string {
  if (line.startsWith('{'))
    try {
      return JSON.stringify(redactJson(JSON.parse(line)));
    } catch {
      // not JSON
    }
  return redactSettings(line, messageStartOf(line));
}

function redactShapes(text: string): string {
  return SHAPES.reduce((rest, shape) => rest.replace(shape, REMOVED), text)
    .replace(USER_INFO, `$1${REMOVED}@`)
    .replace(USER, `$1${REMOVED}@`);
}
