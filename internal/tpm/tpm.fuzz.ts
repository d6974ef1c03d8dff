import { respond } from '../testing/tpm/fake-tpm.ts';
import type { NamedFuzzTarget } from '../testing/fuzz.ts';
import { decodeResponse, password, readResponseCode } from './command.ts';
import { parseCreationData } from './commands/creation.ts';
import { parseProvedSeal } from './proved-seal.ts';
import { parseSealed } from './seal.ts';
import { parseNvAttest, parseQuoteAttest } from './structures/attest.ts';
import { COUNTER_ATTRIBUTES, encodeNvPublic, parseNvPublic } from './structures/nv-public.ts';
import { encodePcrSelection, pcrDigest, readPcrSelection } from './structures/pcr-selection.ts';
import { keyObjectOf, parsePublic } from './structures/public.ts';
import { encodeSignature, isCanonical, parseSignature } from './structures/signature.ts';
import { EK_ECC_P256, EK_RSA_2048 } from './structures/templates.ts';
import { WireReader, WireWriter } from './wire.ts';

const QUOTED = { name: 'quote', handles: [0x80000000], authorizations: [password()] } as const;
const selection = encodePcrSelection({ hash: 'sha256', pcrs: [0, 7] });
const parameters = Uint8Array.of(1, 2, 3);

/** The EK template with the generator of P-256 as its public point. */
const endorsementKey = new WireWriter()
  .bytes(EK_ECC_P256.slice(0, -68))
  .sized(Buffer.from('6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296', 'hex'))
  .sized(Buffer.from('4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5', 'hex'))
  .finish();

/** TPMS_ATTEST up to the part that depends on its type. */
function statement(type: number): WireWriter {
  const head = new WireWriter().u32(0xff544347).u16(type);
  const clock = new WireWriter().u64(5000n).u32(3).u32(1).u8(1);
  return head
    .sized(new Uint8Array(34).fill(7))
    .sized(new Uint8Array(32).fill(8))
    .bytes(clock.finish())
    .u64(0x20240101n);
}

const quoteStatement = statement(0x8018)
  .bytes(selection)
  .sized(pcrDigest(new Map([[0, new Uint8Array(32)]]), 'sha256'))
  .finish();
const nvStatement = statement(0x8014).sized(new Uint8Array(34)).u16(0).sized(new Uint8Array(8)).finish();
const sealed = new WireWriter()
  .u32(0x63545053)
  .u16(1)
  .bytes(selection)
  .sized(new Uint8Array(78))
  .sized(new Uint8Array(158));
const creation = new WireWriter()
  .bytes(selection)
  .sized(new Uint8Array(32))
  .u8(1)
  .u16(0x000b)
  .sized(new Uint8Array(34))
  .sized(new Uint8Array(34))
  .sized(new Uint8Array(32))
  .finish();
const provedAfter = (head: WireWriter): WireWriter =>
  head.sized(new Uint8Array(78)).sized(new Uint8Array(158)).sized(creation).sized(new Uint8Array(32));
const proved = provedAfter(new WireWriter().u32(0x63545050).u16(1));
const ending = provedAfter(new WireWriter().u32(0x63545050).u16(2).u64(7n));
const counter = encodeNvPublic({
  index: 0x01800001,
  nameHash: 'sha256',
  attributes: COUNTER_ATTRIBUTES,
  authPolicy: new Uint8Array(),
  sizeBytes: 8,
});
const signature = encodeSignature({
  algorithm: 'ecdsa',
  hash: 'sha256',
  r: new Uint8Array(32).fill(1),
  s: new Uint8Array(32).fill(1),
});

const KEY = { kind: 'ecc', curve: 'p256', x: new Uint8Array(32), y: new Uint8Array(32) } as const;
const codes = ['tpm-malformed'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'tpm/response',
    codes: ['tpm-'],
    seeds: [
      respond({ parameters, sessions: true }),
      respond({ parameters }),
      respond({ rc: 0x922 }),
      respond({ handle: 1, parameters }),
    ],
    parse: (input) => [readResponseCode(input, 'quote'), decodeResponse(input, QUOTED)],
  },
  {
    name: 'tpm/public',
    codes,
    seeds: [endorsementKey, EK_RSA_2048],
    parse: (input) => keyObjectOf(parsePublic(input).key),
  },
  { name: 'tpm/quote', codes, seeds: [quoteStatement], parse: parseQuoteAttest },
  { name: 'tpm/nv-certificate', codes, seeds: [nvStatement], parse: parseNvAttest },
  {
    name: 'tpm/signature',
    codes,
    seeds: [signature],
    parse: (input) => isCanonical(parseSignature(input), KEY),
  },
  { name: 'tpm/nv-public', codes, seeds: [counter], parse: parseNvPublic },
  { name: 'tpm/sealed', codes, seeds: [sealed.finish()], parse: parseSealed },
  {
    name: 'tpm/proved-seal',
    codes,
    seeds: [proved.finish(), ending.finish()],
    parse: parseProvedSeal,
  },
  { name: 'tpm/creation-data', codes, seeds: [creation], parse: parseCreationData },
  {
    name: 'tpm/pcr-selection',
    codes,
    seeds: [selection],
    parse: (input) => readPcrSelection(new WireReader(input, 'a selection')),
  },
];
