import { isSecretName } from './secret-names.ts';
import { REMOVED } from './settings.ts';

/** What log drivers, syslog and journald write before a message. */
const PREFIX =
  /^(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,24}(?:Z|[+-]\d\d:?\d\d)? )?(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15} )?(?:(?:stdout|stderr) [FP] )?(?:[\w.-]{1,64} [\w.@/-]{1,64}\[\d+\]: )?/;
/** The begin of a message, which is no value of the line before it. */
const NEW_MESSAGE =
  /^\s{0,64}(?:[IWEF]\d{4} |[{}]|(?:- )?["']?[\w.-]{1,128}["']?(?::(?:\s|$)|=)|level=|time=)/;
const MAX_TAIL = 300;
const NAME_AT_END = /(?<![\w.-])([\w.-]{1,128})["']?:[ \t]{0,8}([|>][+-]?\d?)?$/;
const PAIR_AT_END = /(?<![\w.-])(?:name|key)["']?[ \t]{0,8}[:=][ \t]{0,8}["']?([\w.-]{1,128})["']?,?$/i;
const VALUE_LINE = /^(\s{0,64}["']?value["']?[ \t]{0,8}[:=][ \t]{0,8}["']?)([^"'\s].*?)(["']?,?\s*)$/i;
const LINE = /^(\s*)(- )?(.*)$/;

/** Where the message begins after its time and program. */
export function messageStartOf(line: string): number {
  return PREFIX.exec(line)?.[0].length ?? 0;
}

/**
 * Removes values that are on the lines after their names: after `password:`, in a block or a list of YAML, and in a pair of name and
 * value over two lines. Each line may begin with a time.
 */
export class NextLines {
  #open: Open | undefined;

  /** One line after the other. @returns the line, without its value if the line before it has the name of a secret */
  redact(line: string): string {
    const start = messageStartOf(line);
    const message = line.slice(start);
    const redacted = this.#redactMessage(message);
    this.#open = redacted === undefined ? opened(message) : this.#open;
    return redacted === undefined ? line : line.slice(0, start) + redacted;
  }

  /** `undefined`: the message is no value of the lines before it. */
  #redactMessage(message: string): string | undefined {
    const open = this.#open;
    if (open === undefined) return undefined;
    if (open.kind === 'pair') {
      this.#open = undefined;
      const value = VALUE_LINE.exec(message);
      return value === null ? undefined : `${value[1] ?? ''}${REMOVED}${value[3] ?? ''}`;
    }
    const [, space = '', dash = '', text = ''] = LINE.exec(message) ?? [];
    if (text.trim() === '') return open.kind === 'block' ? message : undefined;
    if (open.kind === 'block') return space.length > open.indent ? space + REMOVED : undefined;
    if (NEW_MESSAGE.test(message) || (open.kind === 'list' && dash === '')) return undefined;
    this.#open = dash === '' ? undefined : { ...open, kind: 'list' };
    return space + dash + REMOVED;
  }
}

/** A line that ended with the name of a secret. */
interface Open {
  readonly kind: 'value' | 'block' | 'list' | 'pair';
  readonly indent: number;
}

function opened(message: string): Open | undefined {
  const tail = message.slice(-MAX_TAIL).trimEnd();
  const indent = message.length - message.trimStart().length;
  const [, name = '', block] = NAME_AT_END.exec(tail) ?? [];
  if (isSecretName(name)) return { kind: block === undefined ? 'value' : 'block', indent };
  return isSecretName(PAIR_AT_END.exec(tail)?.[1] ?? '') ? { kind: 'pair', indent } : undefined;
}
