/**
 * Removes what looks like a secret from the text of logs, events and configurations. No file in a support bundle is
 * meant to contain secrets. This module finds secrets that a program wrote in the wrong place, and removes too much
 * rather than too little.
 */

/** The text that replaces each removed secret. */
export const REMOVED = '<removed>';

/** Parts of names of settings whose values are secret. */
const SENSITIVE =
  'passw(?:or)?d|passphrase|passcode|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|account[_-]?key|encryption[_-]?key|master[_-]?key|key[_-]?data|credential|authorization|auth|cookie|session[_-]?id|connection[_-]?string';
/**
 * Names that end like this do not have a secret as their value, but its location, kind or another harmless property.
 */
const HARMLESS_END = /(?:name|names|ref|path|file|type|kind|seconds|count|version|at|ms|id)["']?$/i;
const SENSITIVE_NAME = new RegExp(SENSITIVE, 'i');

/** Names are bounded, so that a long line from an attacker costs linear time. */
const SETTING = new RegExp(
  `((?:${SENSITIVE})[\\w.-]{0,64}["']?)(\\s{0,8}[:=]\\s{0,8})("(?:[^"\\\\\\n]|\\\\.)*"|'[^'\\n]*'|[^\\s"']\\S*)`,
  'gi',
);
const FLAG = new RegExp(
  `(--?[\\w-]{0,32}(?:${SENSITIVE})[\\w-]{0,32}[ ]+)("[^"\\n]*"|'[^'\\n]*'|[^\\s-]\\S*)`,
  'gi',
);

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
/** Only the last line of a key is shorter. */
const MIN_KEY_LINE = 16;
const USER_INFO = /(:\/\/)[^\s"'<>/@:]{0,256}:[^\s"'<>]{1,256}@/g;

/** Removes everything that looks like a secret from a text. Lines that are JSON stay JSON. */
export function redactText(text: string): string {
  const lines = redactShapes(text).split('\n');
  redactKeyEnds(lines);
  return lines.map((line) => redactLine(line)).join('\n');
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
  if (typeof value === 'string')
    return isSensitive(name) && value !== '' ? REMOVED : redactSettings(redactShapes(value));
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) return value.map((each) => redactJson(each, name));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => !key.startsWith('$'));
  return Object.fromEntries(entries.map(([key, each]) => [redactShapes(key), redactJson(each, key)]));
}

function redactLine(line: string): string {
  if (line.startsWith('{'))
    try {
      return JSON.stringify(redactJson(JSON.parse(line)));
    } catch {
      // not JSON
    }
  return redactSettings(line);
}

function redactShapes(text: string): string {
  return SHAPES.reduce((rest, shape) => rest.replace(shape, REMOVED), text).replace(
    USER_INFO,
    `$1${REMOVED}@`,
  );
}

function redactSettings(text: string): string {
  return text
    .replace(FLAG, `$1${REMOVED}`)
    .replace(SETTING, (whole: string, name: string, sign: string, value: string) => {
      if (HARMLESS_END.test(name)) return whole;
      const quote = value.startsWith('"') || value.startsWith("'") ? value.charAt(0) : '';
      return `${name}${sign}${quote}${REMOVED}${quote}`;
    });
}

function isSensitive(name: string): boolean {
  return SENSITIVE_NAME.test(name) && !HARMLESS_END.test(name);
}
