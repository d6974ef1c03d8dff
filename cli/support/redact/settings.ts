import { isProse, looksRandom } from './prose.ts';
import { isSecretName } from './secret-names.ts';
import { findValue, type FoundValue } from './secret-values.ts';

/** The text that replaces each removed secret. */
export const REMOVED = '<removed>';

/** Quotes; in a string that is quoted itself they are escaped. */
const QUOTE = String.raw`(?:\\{0,15}["'\x60]|%22|\\{1,15}u0022)?`;
const SIGN = String.raw`[ \t]{0,8}(?:=>|:=|[:=]|%3[ad])[ \t]{0,8}`;
/** A name starts only where no name goes on, so that a long line from an attacker costs linear time. */
const START = String.raw`(?<![\w.-])`;
/** Names of two words, as people write them. */
const TWO_WORDS =
  '(?:(?:api|private|access|account|shared|encryption|master|signing|storage|license|pre-shared) )?';
const SETTING = new RegExp(`${START}(${TWO_WORDS}[\\w.-]+)${QUOTE}${SIGN}`, 'gi');
/** Their values are several words. */
const LONG_VALUES = /authorization|cookie/i;

/** Between name and value of an environment variable of a pod, or of a property. */
const GAP = String.raw`(?:[\s,;]|\\{1,15}[nt]){1,64}`;
const PAIR = new RegExp(
  `${START}(?:name|key)${QUOTE}${SIGN}${QUOTE}([\\w.-]+)${QUOTE}${GAP}${QUOTE}value${QUOTE}${SIGN}`,
  'gi',
);
const REVERSED_PAIR = new RegExp(
  `${START}(value${QUOTE}${SIGN}${QUOTE})[^\\s"'\`\\\\]{1,256}(${QUOTE}${GAP}${QUOTE}(?:name|key)${QUOTE}${SIGN}${QUOTE}([\\w.-]+))`,
  'gi',
);
/** A Go structure does not quote its values: this field comes after a value with spaces. */
const GO_FIELD = ' ValueFrom:';
const MAX_GO_VALUE = 1024;

const FLAG = new RegExp(`${START}(--?[a-z][\\w-]{0,80})(?:${QUOTE},? {1,4}|${QUOTE},)(?!-)`, 'gi');
/** `-u USER:PASSWORD` of curl and others. A user and a group as numbers are no secret. */
const USER_FLAG = new RegExp(
  `${START}((?:-[a-zA-Z]{0,4}[uU]|--user|--proxy-user)${QUOTE}[ ,=]{1,4})(?!\\d+:\\d+(?!\\S))(?:(\\\\{0,15}["'][^\\s:"'\\\\@/]{0,128}:)[^"'\n\\\\]+|([^\\s:"'\\\\@/]{0,128}:)[^\\s"'\\\\]+)`,
  'g',
);
/** Flags whose short names mean a password in these programs only. */
const PROGRAM_FLAG =
  /\b((?:mysql|mariadb|sshpass|redis-cli|docker login|podman login|helm registry login)[^\n|;]{0,256}?\s(?:-p|-a) {0,2})[^\s"'-]\S*/g;

const LESS = String.raw`(?:<|&lt;|\\{1,15}u003c)`;
const GREATER = String.raw`(?:>|&gt;|\\{1,15}u003e)`;
const ELEMENT = new RegExp(
  `(${LESS}([\\w:.-]{1,128})(?: [^<>]{0,256})?${GREATER}(?:<!\\[CDATA\\[)?)(?:(?!${LESS}).)+`,
  'gi',
);

/** "password VALUE", "password is VALUE". */
const SPOKEN =
  /\b((?:pass(?:word|wd|phrase|code)|pwd) {1,4}(?:is |was |(?:set|changed) to |as )?\\{0,15}["'`]?)([^\s"'`]+)/gi;
/** Other words are often followed by a name: only what looks random is removed. */
const SPOKEN_TOKEN =
  /\b((?:token|secret|key)s? {1,4}(?:is |was )?\\{0,15}["'`]?)([A-Za-z0-9+/_=-]{16,512})/gi;

/**
 * Removes the values of settings, flags and elements from a line whose names say that they are secret.
 * @param messageStart where the message begins after the time and the name of the program; a setting there takes the whole line
 */
export function redactSettings(line: string, messageStart = 0): string {
  const flags = redactValues(line, FLAG, (text, from) => findValue(text, from));
  const pairs = redactValues(redactReversed(flags), PAIR, findPairValue);
  return redactValues(pairs, SETTING, (text, from, { name, at, sign }) =>
    LONG_VALUES.test(name)
      ? findLongValue(text, from)
      : findValue(text, from, sign.endsWith(': ') && isMessageStart(text, at, messageStart)),
  )
    .replace(USER_FLAG, (_, flag: string, quoted = '', plain = '') => `${flag}${quoted}${plain}${REMOVED}`)
    .replace(PROGRAM_FLAG, `$1${REMOVED}`)
    .replace(ELEMENT, (whole: string, tag: string, name: string) =>
      isSecretName(name) ? tag + REMOVED : whole,
    )
    .replace(SPOKEN, (whole: string, before: string, value: string) =>
      isProse(value) ? whole : before + REMOVED,
    )
    .replace(SPOKEN_TOKEN, (whole: string, before: string, value: string) =>
      looksRandom(value) ? before + REMOVED : whole,
    );
}

/** Removes the value after each match of a pattern whose first group is the name of a secret. */
function redactValues(line: string, pattern: RegExp, find: FindValue): string {
  let text = '';
  let done = 0;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(line); match !== null; match = pattern.exec(line)) {
    const [sign, name = ''] = match;
    const from = match.index + sign.length;
    const found = isSecretName(name) ? find(line, from, { name, sign, at: match.index }) : undefined;
    if (found === undefined) continue;
    text += line.slice(done, found.start) + REMOVED;
    done = found.end;
    pattern.lastIndex = done;
  }
  pattern.lastIndex = 0;
  return text + line.slice(done);
}

function redactReversed(line: string): string {
  return line.replace(REVERSED_PAIR, (whole: string, before: string, between: string, name: string) =>
    isSecretName(name) ? before + REMOVED + between : whole,
  );
}

function findPairValue(line: string, from: number): FoundValue | undefined {
  const found = findValue(line, from);
  if (found?.start !== from) return found;
  const field = line.slice(from, from + MAX_GO_VALUE).indexOf(GO_FIELD);
  return { start: from, end: Math.max(found.end, from + field) };
}

function findLongValue(line: string, from: number): FoundValue | undefined {
  const found = findValue(line, from);
  if (found?.start !== from) return found;
  const length = line.slice(from).search(/["'`]/);
  return { start: from, end: length < 0 ? line.length : from + length };
}

function isMessageStart(line: string, at: number, messageStart: number): boolean {
  return at >= messageStart && /^[\s"'-]{0,64}$/.test(line.slice(messageStart, at));
}

type FindValue = (
  line: string,
  from: number,
  found: { readonly name: string; readonly sign: string; readonly at: number },
) => FoundValue | undefined;
