import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { encodeAnswer, encodeQuestion, parseAnswer, parseQuestion } from './messages.ts';

const codes = ['evidence-socket-'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'evidence-socket/question',
    codes,
    seeds: [encodeQuestion('tpm', new Uint8Array(200))],
    parse: (input) => parseQuestion(Buffer.from(input)),
  },
  {
    name: 'evidence-socket/answer',
    codes,
    seeds: [encodeAnswer('given', new Uint8Array(40)), encodeAnswer('busy')],
    parse: (input) => parseAnswer(Buffer.from(input)),
  },
];
