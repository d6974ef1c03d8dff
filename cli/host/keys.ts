/** A key of a terminal, as programs that draw the whole terminal use it: a character, or the name of another key. */
export type Key = string;

const ESCAPE = '\u001b';

/** Keys that terminals send as several characters (ECMA-48, xterm). */
const SEQUENCES: Readonly<Record<string, Key>> = {
  '[A': 'up',
  '[B': 'down',
  '[C': 'right',
  '[D': 'left',
  OA: 'up',
  OB: 'down',
  OC: 'right',
  OD: 'left',
  '[5~': 'page-up',
  '[6~': 'page-down',
  '[H': 'home',
  '[F': 'end',
  OH: 'home',
  OF: 'end',
  '[1~': 'home',
  '[4~': 'end',
  '[Z': 'back-tab',
};
/** Parameters, intermediates and the final character of a control sequence, or a key of the application keypad. */
const SEQUENCE = /^(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|O[\x40-\x7e])/;
const SINGLE: Readonly<Record<string, Key>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  '\u0003': 'interrupt',
  '\u0004': 'interrupt',
  '\u007f': 'backspace',
  '\b': 'backspace',
  '\u000c': 'redraw',
};

/** The keys in what a terminal sent. Unknown sequences are left out, so that none of them is taken for characters. */
export function parseKeys(text: string): readonly Key[] {
  const keys: Key[] = [];
  for (let rest = text; rest !== '';) {
    const [key, length] = firstKey(rest);
    if (key !== undefined) keys.push(key);
    rest = rest.slice(length);
  }
  return keys;
}

function firstKey(text: string): readonly [Key | undefined, number] {
  if (text.startsWith(ESCAPE)) {
    const sequence = SEQUENCE.exec(text.slice(1))?.[0];
    return sequence === undefined ? ['escape', 1] : [SEQUENCES[sequence], 1 + sequence.length];
  }
  const character = String.fromCodePoint(text.codePointAt(0) ?? 0);
  return [SINGLE[character] ?? (character < ' ' ? undefined : character), character.length];
}
