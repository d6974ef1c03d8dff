import { malformed, TpmError } from './errors.ts';
import { errorFromResponseCode } from './response-codes.ts';
import { commandHash, responseHash, type HmacSession } from './sessions/hmac-session.ts';
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
  policyNv: 0x0149,
  certifyCreation: 0x014a,
  nvRead: 0x014e,
  policySecret: 0x0151,
  create: 0x0153,
  load: 0x0157,
  quote: 0x0158,
  unseal: 0x015e,
  flushContext: 0x0165,
  loadExternal: 0x0167,
  nvReadPublic: 0x0169,
  policyAuthorize: 0x016a,
  policyOr: 0x0171,
  readPublic: 0x0173,
  startAuthSession: 0x0176,
  verifySignature: 0x0177,
  getCapability: 0x017a,
  getRandom: 0x017b,
  pcrRead: 0x017e,
  policyPcr: 0x017f,
  pcrExtend: 0x0182,
  nvCertify: 0x0184,
  policyGetDigest: 0x0189,
} as const;

/** Name of a TPM command. */
export type CommandName = keyof typeof CC;

const EMPTY = new Uint8Array();
const TAG_NO_SESSIONS = 0x8001;
const TAG_SESSIONS = 0x8002;
/** Attributes of a session (TPMA_SESSION): the program that opened a session flushes it, also after an error. */
const ATTRIBUTE = { continueSession: 0x01, request: 0x20, response: 0x40 } as const;

/** Authorization of one handle of a command: a password (TPM_RS_PW), a satisfied policy session, or a salted session. */
export interface Authorization {
  readonly sessionHandle: number;
  /** The authorization value. A password crosses the bus in the clear; with a salted session the value is part of a key. */
  readonly value: Uint8Array;
  /** The salted session that authenticates the command and its response. Without it, the bus can read and change both. */
  readonly session?: HmacSession;
  /** Whose first parameter the session encrypts. */
  readonly encrypts?: 'request' | 'response';
}

/** Authorization by password; the default is the empty password. */
export function password(value: Uint8Array = EMPTY): Authorization {
  return { sessionHandle: 0x40000009, value };
}

/** A TPM command. */
export interface TpmCommand {
  readonly name: CommandName;
  readonly handles?: readonly number[];
  /** The Names of the handles, which a salted session authenticates. Default: the handles, right for hierarchies and PCRs. */
  readonly names?: readonly Uint8Array[];
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

/** Encodes a command (Part 1, 18), encrypted and with HMACs as its sessions say. Throws RangeError when it is too long. */
export function encodeCommand(command: TpmCommand): Uint8Array {
  const { handles = [], authorizations = [] } = command;
  const body = new WireWriter();
  for (const handle of handles) body.u32(handle);
  const nonces = authorizations.map(({ session }) => session?.begin() ?? EMPTY);
  const parameters = encryptedParameters(command);
  if (authorizations.length > 0) {
    const names = command.names ?? handles.map((handle) => new WireWriter().u32(handle).finish());
    const hash = commandHash(CC[command.name], names, parameters);
    const area = new WireWriter();
    authorizations.forEach((each, at) => {
      const attributes = attributesOf(each);
      const proof = each.session?.hmacOfRequest({ hash, attributes, value: each.value }) ?? each.value;
      area
        .u32(each.sessionHandle)
        .sized(nonces[at] ?? EMPTY)
        .u8(attributes)
        .sized(proof);
    });
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

function encryptedParameters({ authorizations = [], parameters = EMPTY }: TpmCommand): Uint8Array {
  const encrypting = authorizations.find(({ encrypts }) => encrypts === 'request');
  return encrypting?.session?.encryptRequest(parameters, encrypting.value) ?? parameters;
}

function attributesOf({ encrypts }: Authorization): number {
  return ATTRIBUTE.continueSession | (encrypts === undefined ? 0 : ATTRIBUTE[encrypts]);
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

/**
 * Parses a response. With salted sessions, nothing of it is returned before their HMACs are verified.
 * @throws TpmError: the error that the TPM returned, `tpm-malformed`, `tpm-response-altered`
 */
export function decodeResponse(message: Uint8Array, command: TpmCommand): TpmResponse {
  const rc = readResponseCode(message, command.name);
  if (rc !== 0) throw errorFromResponseCode(command.name, rc);
  const what = `the response to ${command.name}`;
  const reader = new WireReader(message, what);
  const { authorizations = [] } = command;
  reader.expect(reader.u16('tag'), authorizations.length > 0 ? TAG_SESSIONS : TAG_NO_SESSIONS, 'tag');
  reader.bytes(HEADER_BYTES - 2, 'header');
  const handle = command.returnsHandle === true ? reader.u32('handle') : 0;
  if (authorizations.length === 0) {
    return { handle, parameters: new WireReader(reader.bytes(reader.remaining, 'parameters'), what) };
  }
  const parameters = reader.bytes(reader.u32('parameter size'), 'parameters');
  for (const each of authorizations)
    verifyAuthorization(reader, { command, parameters, authorization: each });
  reader.end();
  return { handle, parameters: new WireReader(decryptedParameters(command, parameters), what) };
}

/**
 * Reads TPMS_AUTH_RESPONSE. That of a password, or of an unsalted, unbound policy session, has an empty HMAC. The attributes are
 * those of the command: a TPM that was told to encrypt has done so.
 */
function verifyAuthorization(
  reader: WireReader,
  options: {
    readonly command: TpmCommand;
    readonly parameters: Uint8Array;
    readonly authorization: Authorization;
  },
): void {
  const { command, parameters, authorization } = options;
  const { session, value } = authorization;
  const nonce = reader.sized('nonce', 64);
  const attributes = reader.u8('session attributes');
  const proof = reader.sized('acknowledgment', 64);
  const expected = attributesOf(authorization);
  if (session === undefined) {
    if (attributes !== expected)
      throw malformed(`session attributes: expected ${hex(expected)}, found ${hex(attributes)}`);
    return reader.expect(proof.length, 0, 'acknowledgment size');
  }
  const hash = responseHash(CC[command.name], parameters);
  if (attributes !== expected || !session.acceptResponse({ hash, attributes, value }, nonce, proof))
    throw new TpmError('tpm-response-altered', `verifying the response to ${command.name}`);
}

function decryptedParameters({ authorizations = [] }: TpmCommand, parameters: Uint8Array): Uint8Array {
  const encrypting = authorizations.find(({ encrypts }) => encrypts === 'response');
  return encrypting?.session?.decryptResponse(parameters, encrypting.value) ?? parameters;
}
