import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import type { Clock } from '../../clock/index.ts';
import {
  digestOf,
  encodePcrSelection,
  HIERARCHY,
  nameOf,
  parsePublic,
  pcrDigest,
  qualifiedNameOf,
  WireReader,
  WireWriter,
  type ClockInfo,
  type PcrSelection,
  type Transport,
  type TransportSource,
} from '../../tpm/index.ts';

/**
 * A signing key in software with the public area of a TPM key. An attacker can make such a key, and tests
 * need one.
 */
export interface SoftKey {
  readonly publicArea: Uint8Array;
  readonly privateKey: KeyObject;
}

/** fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted, sign. */
export const AK_ATTRIBUTES = 0x00050472;

/** A P-256 key whose public area claims the attributes of an attestation key. */
export function createSoftKey(attributes: number = AK_ATTRIBUTES): SoftKey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const publicArea = new WireWriter()
    .u16(0x0023) // ECC
    .u16(0x000b) // Name by SHA-256
    .u32(attributes)
    .u16(0) // no policy
    .u16(0x0010) // no symmetric cipher
    .u16(0x0018) // ECDSA
    .u16(0x000b) // the hash algorithm SHA-256
    .u16(0x0003) // P-256
    .u16(0x0010) // no KDF
    .sized(Buffer.from(x, 'base64url'))
    .sized(Buffer.from(y, 'base64url'))
    .finish();
  return { publicArea, privateKey };
}

export interface Statement {
  readonly magic?: number;
  readonly type?: number;
  readonly qualifiedSigner?: Uint8Array;
  readonly extraData: Uint8Array;
  readonly clock?: Partial<ClockInfo>;
  /** The part after the header; default: a quote. */
  readonly body: Uint8Array;
}

/** TPMS_ATTEST; a test can set every field to a wrong value. */
export function encodeStatement(key: SoftKey, statement: Statement): Uint8Array {
  const { clock = {} } = statement;
  return new WireWriter()
    .u32(statement.magic ?? 0xff544347)
    .u16(statement.type ?? 0x8018)
    .sized(statement.qualifiedSigner ?? qualifiedNameOf(parsePublic(key.publicArea), HIERARCHY.endorsement))
    .sized(statement.extraData)
    .u64(clock.clockMs ?? 1000n)
    .u32(clock.resetCount ?? 1)
    .u32(clock.restartCount ?? 0)
    .u8((clock.safe ?? true) ? 1 : 0)
    .u64(1n)
    .bytes(statement.body)
    .finish();
}

export function quoteBody(selection: PcrSelection, values: ReadonlyMap<number, Uint8Array>): Uint8Array {
  return new WireWriter().bytes(encodePcrSelection(selection)).sized(pcrDigest(values, 'sha256')).finish();
}

/** TPMT_SIGNATURE by ECDSA with SHA-256. s can be in the upper or lower half of the range. */
export function signStatement(key: SoftKey, attest: Uint8Array): Uint8Array {
  const signature = sign('sha256', attest, { key: key.privateKey, dsaEncoding: 'ieee-p1363' });
  return new WireWriter()
    .u16(0x0018)
    .u16(0x000b)
    .sized(signature.subarray(0, 32))
    .sized(signature.subarray(32))
    .finish();
}

export interface FakeTpmOptions {
  readonly clock: Clock;
  /** The duration of a quote; a hardware TPM needs 100 ms. */
  readonly quoteMs?: number;
}

/**
 * A small TPM in software: handles, PCRs, one attestation key, quotes. It speaks the TPM wire format, so
 * the real client runs against it. With `script`, the next commands return these response codes instead.
 */
export class FakeTpm implements TransportSource {
  readonly address = 'fake';
  readonly canStayOpen = true;
  readonly key = createSoftKey();
  readonly pcrs = new Map<number, Uint8Array>(Array.from({ length: 24 }, (_, i) => [i, new Uint8Array(32)]));
  /** The command codes in the order of arrival. */
  readonly commands: number[] = [];
  /** Response codes for the next commands; 0 means a normal response. */
  readonly script: number[] = [];
  /** Transient objects that are loaded. */
  readonly loaded = new Set<number>();
  opened = 0;
  quotes = 0;
  /** Called before each quote, so that a test can change the TPM while a quote is in progress. */
  beforeQuote: () => void = () => undefined;
  readonly #options: FakeTpmOptions;
  #nextHandle = 0x80000000;

  constructor(options: FakeTpmOptions) {
    this.#options = options;
  }

  async open(): Promise<Transport> {
    this.opened++;
    return {
      transmit: (command, signal) => this.#transmit(command, signal),
      [Symbol.asyncDispose]: async () => undefined,
    };
  }

  extend(pcr: number, digest: Uint8Array): void {
    this.pcrs.set(pcr, digestOf('sha256', this.pcrs.get(pcr) ?? new Uint8Array(32), digest));
  }

  async #transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    const reader = new WireReader(command, 'a command');
    const sessions = reader.u16('tag') === 0x8002;
    reader.u32('size');
    const code = reader.u32('code');
    this.commands.push(code);
    const scripted = this.script.shift() ?? 0;
    if (scripted !== 0) return respond({ rc: scripted });
    switch (code) {
      case 0x017a:
        return this.#getCapability(reader);
      case 0x0131:
        return this.#createPrimary(sessions);
      case 0x0165:
        this.loaded.delete(reader.u32('handle'));
        return respond({});
      case 0x017e:
        return this.#pcrRead(reader);
      case 0x0158:
        return this.#quote(reader, signal);
      default:
        return respond({ rc: 0x143 }); // TPM_RC_COMMAND_CODE
    }
  }

  #getCapability(reader: WireReader): Uint8Array {
    const capability = reader.u32('capability');
    const from = reader.u32('property');
    const handles =
      from >= 0x80000000 && from < 0x81000000 ? [...this.loaded].filter((each) => each >= from) : [];
    const parameters = new WireWriter().u8(0).u32(capability).u32(handles.length);
    for (const handle of handles) parameters.u32(handle);
    return respond({ parameters: parameters.finish() });
  }

  #createPrimary(sessions: boolean): Uint8Array {
    const handle = this.#nextHandle++;
    this.loaded.add(handle);
    const empty = new Uint8Array();
    const parameters = new WireWriter().sized(this.key.publicArea).sized(empty).sized(empty);
    parameters.u16(0x8021).u32(HIERARCHY.endorsement).sized(empty);
    const name = nameOf(parsePublic(this.key.publicArea));
    return respond({ handle, parameters: parameters.sized(name).finish(), sessions });
  }

  #pcrRead(reader: WireReader): Uint8Array {
    const asked = readSelection(reader);
    const given = asked.slice(0, 8);
    const parameters = new WireWriter().u32(this.quotes);
    parameters.bytes(encodePcrSelection({ hash: 'sha256', pcrs: given })).u32(given.length);
    for (const pcr of given) parameters.sized(this.pcrs.get(pcr) ?? new Uint8Array(32));
    return respond({ parameters: parameters.finish() });
  }

  async #quote(reader: WireReader, signal: AbortSignal): Promise<Uint8Array> {
    this.beforeQuote();
    if (this.#options.quoteMs !== undefined) await this.#options.clock.sleep(this.#options.quoteMs, signal);
    this.quotes++;
    reader.u32('handle');
    reader.bytes(reader.u32('authorization size'), 'authorization');
    const extraData = reader.sized('extraData', 64);
    reader.u16('scheme');
    const selection: PcrSelection = { hash: 'sha256', pcrs: readSelection(reader) };
    const values = new Map(selection.pcrs.map((pcr) => [pcr, this.pcrs.get(pcr) ?? new Uint8Array(32)]));
    const attest = encodeStatement(this.key, { extraData, body: quoteBody(selection, values) });
    const parameters = new WireWriter().sized(attest).bytes(signStatement(this.key, attest)).finish();
    return respond({ parameters, sessions: true });
  }
}

/** One response message. */
export function respond(response: {
  readonly rc?: number;
  readonly handle?: number;
  readonly parameters?: Uint8Array;
  readonly sessions?: boolean;
}): Uint8Array {
  const { rc = 0, handle, parameters = new Uint8Array(), sessions = false } = response;
  const body = new WireWriter();
  if (handle !== undefined) body.u32(handle);
  if (sessions) body.u32(parameters.length);
  body.bytes(parameters);
  if (sessions) body.u16(0).u8(1).u16(0);
  const bytes = body.finish();
  const header = new WireWriter().u16(sessions && rc === 0 ? 0x8002 : 0x8001);
  return header
    .u32(10 + bytes.length)
    .u32(rc)
    .bytes(bytes)
    .finish();
}

function readSelection(reader: WireReader): number[] {
  reader.u32('count');
  reader.u16('hash');
  const octets = reader.bytes(reader.u8('size'), 'selection');
  return Array.from({ length: 24 }, (_, pcr) => pcr).filter(
    (pcr) => ((octets[pcr >> 3] ?? 0) & (1 << (pcr & 7))) !== 0,
  );
}
