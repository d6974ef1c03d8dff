import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { encodeResponse, encodeRequest, parseResponse, parseRequest } from './messages.ts';

const codes = ['evidence-socket-'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'evidence-socket/question',
    codes,
    seeds: [encodeRequest('tpm', new Uint8Array(200))],
    parse: (input) => parseRequest(Buffer.from(input)),
  },
  {
    name: 'evidence-socket/answer',
    codes,
    seeds: [encodeResponse('given', new Uint8Array(40)), encodeResponse('busy')],
    parse: (input) => parseResponse(Buffer.from(input)),
  },
];
