import { malformed } from './errors.ts';
import { errorFromResponseCode } from './response-codes.ts';
import { HEADER_BYTES, MAX_MESSAGE_BYTES } from './transport.ts';
import { hex, WireReader, WireWriter } from './wire.ts';

/** Codes of TPM commands, TPM_CC (Part 2, 6.5.2). */
export const CC = {
  nvUndefineSpace: 0x0122,
  nvDefineSpace: 0x012a,
  createPrimary: 0x0131,
  nvIncrement: 0x0134,
  nvWrite: 0x0137,
  pcrEvent: 0x013c,
  startup: 0x0144,
  shutdown: 0x0145,
  activateCredential: 0x0147,
  certifyCreation: 0x014a,
  nvRead: 0x014e,
  policySecret: 0x0151,
  create: 0x0153,
  load: 0x0157,
  quote: 0x0158,
  unseal: 0x015e,
  flushContext: 0x0165,
  nvReadPublic: 0x0169,
  policyOr: 0x0171,
  readPublic: 0x0173,
  startAuthSession: 0x0176,
  getCapability: 0x017a,
  getRandom: 0x017b,
  pcrRead: 0x017e,
  policyPcr: 0x017f,
  pcrExtend: 0x0182,
  nvCertify: 0x0184,
} as const;

/** Name of a TPM command. */
export type CommandName = keyof typeof CC;

const TAG_NO_SESSIONS = 0x8001;
const TAG_SESSIONS = 0x8002;

/** Authorization of one handle of a command: a password (TPM_RS_PW) or a satisfied policy session. */
export interface Authorization {
  readonly sessionHandle: number;
  /** The authorization value, unencrypted, because the bus to the TPM is inside the machine. Empty for policy sessions. */
  readonly value: Uint8Array;
}

/** Authorization by password; the default is the empty password. */
export function password(value: Uint8Array = new Uint8Array()): Authorization {
  return { sessionHandle: 0x40000009, value };
}

/** A TPM command. */
export interface TpmCommand {
  readonly name: CommandName;
  readonly handles?: readonly number[];
  readonly authorizations?: readonly Authorization[];
  readonly parameters?: Uint8Array;
  /** Set for commands that create or load an object: in their response, its handle comes before the parameters. */
  readonly returnsHandle?: boolean;
}

/** The response to a successful command. */
export interface TpmResponse {
  /** 0 unless the command returns a handle. */
  readonly handle: number;
  readonly parameters: WireReader;
}

/** Encodes a command (Part 1, 18). Throws RangeError when it is too long. */
export function encodeCommand(command: TpmCommand): Uint8Array {
  const { handles = [], authorizations = [], parameters = new Uint8Array() } = command;
  const body = new WireWriter();
  for (const handle of handles) body.u32(handle);
  if (authorizations.length > 0) {
    const area = new WireWriter();
    // continueSession (bit 0): the program that opened the session flushes it, also after an error.
    for (const each of authorizations) area.u32(each.sessionHandle).u16(0).u8(1).sized(each.value);
    const bytes = area.finish();
    body.u32(bytes.length).bytes(bytes);
  }
  const bytes = body.bytes(parameters).finish();
  const message = new WireWriter()
    .u16(authorizations.length > 0 ? TAG_SESSIONS : TAG_NO_SESSIONS)
    .u32(HEADER_BYTES + bytes.length)
    .u32(CC[command.name])
    .bytes(bytes)
    .finish();
  if (message.length > MAX_MESSAGE_BYTES)
    throw new RangeError(`${command.name}: ${message.length} bytes, at most ${MAX_MESSAGE_BYTES} allowed`);
  return message;
}

/** The response code of a response; 0 means success. */
export function readResponseCode(message: Uint8Array, name: CommandName): number {
  const reader = new WireReader(message, `the response to ${name}`);
  const tag = reader.u16('tag');
  reader.expect(reader.u32('size'), message.length, 'size');
  const rc = reader.u32('response code');
  if (rc !== 0) reader.expect(tag, TAG_NO_SESSIONS, 'tag of a refusal');
  return rc;
}

/** Parses a response. Throws TpmError: the error that the TPM returned, or `tpm-malformed`. */
export function decodeResponse(message: Uint8Array, command: TpmCommand): TpmResponse {
  const rc = readResponseCode(message, command.name);
  if (rc !== 0) throw errorFromResponseCode(command.name, rc);
  const what = `the response to ${command.name}`;
  const reader = new WireReader(message, what);
  const sessions = command.authorizations?.length ?? 0;
  reader.expect(reader.u16('tag'), sessions > 0 ? TAG_SESSIONS : TAG_NO_SESSIONS, 'tag');
  reader.bytes(HEADER_BYTES - 2, 'header');
  const handle = command.returnsHandle === true ? reader.u32('handle') : 0;
  if (sessions === 0) {
    return { handle, parameters: new WireReader(reader.bytes(reader.remaining, 'parameters'), what) };
  }
  const parameters = reader.bytes(reader.u32('parameter size'), 'parameters');
  for (let session = 0; session < sessions; session++) readAuthorization(reader);
  reader.end();
  return { handle, parameters: new WireReader(parameters, what) };
}

/** Reads TPMS_AUTH_RESPONSE of a password, or of an unsalted, unbound policy session. Both have an empty HMAC. */
function readAuthorization(reader: WireReader): void {
  reader.sized('nonce', 64);
  const attributes = reader.u8('session attributes');
  if (attributes !== 1)
    throw malformed(`session attributes: expected continueSession, found ${hex(attributes)}`);
  reader.expect(reader.sized('acknowledgment', 64).length, 0, 'acknowledgment size');
}
