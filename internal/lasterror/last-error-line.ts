import { parseJson } from '../file/index.ts';
import { printable } from '../printable/index.ts';

const MAX_CHARS = 300;
/** More of a line is not read, because the expressions below take long for long lines. */
const MAX_LINE_CHARS = 4_000;
/**
 * A long run of mixed characters: a token, a key in base64, a line of a PEM file. Programs do not log secrets on
 * purpose, but an error may quote the file that it is about.
 */
const SECRET = /(?=\S*\d)(?=\S*[A-Z])(?=\S*[a-z])[A-Za-z0-9+/_.=-]{40,}/g;
const PATH = /^(\/[^/]+){3}/;
/** "E1128 09:53:05.238785   10803 run.go:72] MESSAGE", of klog: errors and fatal errors. */
const KLOG = /^[EF]\d{4} [\d:.]+ +\d+ [^\]]+\] (.*)$/;
/** The log of containerd: logfmt. */
const LOGFMT = /\blevel=(?:error|fatal|panic) /;
/** What systemd says when it cannot run the program at all; "Failed with result …" tells nothing. */
const SYSTEMD = /^\S+\.service: (Failed (?!with ).*)$/;

/**
 * Why a program failed, from its log: the newest line that is an error, without its time stamp, as one printable line. Knows the logs of
 * Kubernetes (klog), etcd (JSON), containerd (logfmt) and Go itself. Undefined if no line is an error; the long usage text that some
 * programs print is none.
 * @param lines oldest first, of a program that may write anything
 */
export function lastErrorLine(lines: readonly string[]): string | undefined {
  for (const line of lines.toReversed()) {
    const found = errorOf(line.slice(0, MAX_LINE_CHARS).trimEnd());
    if (found !== undefined && found.trim() !== '')
      return printable(withoutSecrets(found.trim()), { maxChars: MAX_CHARS });
  }
  return undefined;
}

function withoutSecrets(text: string): string {
  return text.replace(SECRET, (run) => (PATH.test(run) ? run : '…'));
}

function errorOf(line: string): string | undefined {
  const klog = KLOG.exec(line)?.[1];
  if (klog !== undefined) return messageOfKlog(klog);
  if (line.startsWith('{')) return messageOfJson(line);
  if (LOGFMT.test(line)) return joined(valueOf(line, 'msg'), valueOf(line, 'error'));
  if (/^(panic|fatal error|containerd): /.test(line)) return line;
  return /^Error: (.*)$/.exec(line)?.[1] ?? SYSTEMD.exec(line)?.[1];
}

/** klog's structured messages: `"command failed" err="unknown flag: --x" key="value"`. */
function messageOfKlog(text: string): string {
  const message = quoted(text);
  if (message === undefined) return text;
  const error = valueOf(text, 'err');
  return message === 'command failed' && error !== undefined ? error : joined(message, error);
}

function messageOfJson(line: string): string | undefined {
  const entry = parseJson(line) as Readonly<Record<string, unknown>> | undefined;
  const { level, msg, error } = entry ?? {};
  if (typeof msg !== 'string' || !['error', 'fatal', 'panic'].includes(String(level))) return undefined;
  return joined(msg, typeof error === 'string' ? error : undefined);
}

function joined(message: string | undefined, error: string | undefined): string {
  return [message, error].filter((each) => each !== undefined && each !== '').join(': ');
}

/** The value of `KEY="…"` or `KEY=word`. */
function valueOf(text: string, key: string): string | undefined {
  const at = text.search(new RegExp(`(?:^|\\s)${key}=`));
  if (at < 0) return undefined;
  const rest = text.slice(text.indexOf('=', at) + 1);
  return quoted(rest) ?? /^\S*/.exec(rest)?.[0];
}

/** The text of a quoted string at the beginning, with its escapes resolved; undefined without one. */
function quoted(text: string): string | undefined {
  const literal = /^"(?:[^"\\]|\\.)*"/.exec(text)?.[0];
  if (literal === undefined) return undefined;
  const value = parseJson(literal);
  return typeof value === 'string' ? value : literal.slice(1, -1);
}
