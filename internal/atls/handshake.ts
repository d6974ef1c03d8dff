import { errorFromAlert } from './alerts.ts';
import { bindingsOf, transcriptHash, type Bindings, type Role, type Session } from './binding.ts';
import { AtlsError } from './errors.ts';
import {
  encodeEvidence,
  encodeHello,
  encodeReady,
  FORMAT_NONE,
  FRAME,
  HEADER_BYTES,
  parseAlert,
  parseEvidence,
  parseHeader,
  parseHello,
  type Evidence,
  type FrameKind,
} from './wire.ts';

export interface HandshakeOptions {
  readonly role: Role;
  readonly session: Session;
  /** 32 fresh random bytes. */
  readonly nonce: Uint8Array;
  /** Formats this end can show; `[FORMAT_NONE]` when its mode says that it shows nothing. */
  readonly shows: readonly number[];
  /** Formats this end accepts, best first; `[FORMAT_NONE]` when its mode says that it asks for nothing. */
  readonly accepts: readonly number[];
}

/** What the handshake asks of its driver, one at a time; the driver answers each with bytes. */
export type HandshakeStep =
  /** Answer with exactly so many bytes (0 too) from the peer: what follows READY is the application's. */
  | { readonly kind: 'read'; readonly sizeBytes: number }
  /** Write, and answer at once; every write must be through before the connection is handed on. */
  | { readonly kind: 'send'; readonly bytes: Uint8Array }
  /** Answer with evidence of this end over `binding`. The peer may say nothing meanwhile: see `interruption`. */
  | ({ readonly kind: 'issue'; readonly format: number } & EvidenceBinding)
  /** Judge the peer's evidence against `binding` and answer, or throw. The peer may say nothing meanwhile. */
  | { readonly kind: 'validate'; readonly evidence: Evidence; readonly binding: Uint8Array };

/** The 64 bytes that evidence covers, and what they are the SHA-512 of. */
export interface EvidenceBinding {
  readonly binding: Uint8Array;
  readonly statement: Uint8Array;
}

export type HandshakeSteps<Result = void> = Generator<HandshakeStep, Result, Uint8Array>;

/** What both ends know after the two HELLOs. */
export interface NegotiatedHandshake {
  readonly ownFormat: number;
  readonly bindings: Bindings;
}

/**
 * aTLS/1 as a pure coroutine: no socket, no clock, no randomness. It ends when both ends have accepted each
 * other; whatever is not as it must be throws an `AtlsError` out of the step that met it.
 *
 *     client                                   server
 *     HELLO ─────────────────────────────────▶           both at once
 *           ◀───────────────────────────────── HELLO
 *     EVIDENCE ──────────────────────────────▶ validates first: a stranger costs no quote
 *     validates ◀────────────────────── EVIDENCE, READY
 *     READY, first application byte ─────────▶
 */
export function* handshake(options: HandshakeOptions): HandshakeSteps {
  yield* exchangeEvidence(options, yield* exchangeHellos(options));
}

/** The second half: evidence both ways. A part of its own because silence before HELLO gets less patience. */
export function exchangeEvidence(options: HandshakeOptions, agreed: NegotiatedHandshake): HandshakeSteps {
  return options.role === 'client' ? attestAsClient(options, agreed) : attestAsServer(options, agreed);
}

function* attestAsClient(
  { accepts }: HandshakeOptions,
  { ownFormat, bindings }: NegotiatedHandshake,
): HandshakeSteps {
  yield* send(encodeEvidence(yield* issue(ownFormat, ownBound('client', bindings))));
  const evidence = yield* receiveEvidence(accepts);
  yield* receive('ready');
  yield* validate(evidence, bindings.server);
  yield* send(encodeReady());
}

function* attestAsServer(
  { accepts }: HandshakeOptions,
  { ownFormat, bindings }: NegotiatedHandshake,
): HandshakeSteps {
  yield* validate(yield* receiveEvidence(accepts), bindings.client);
  const evidence = encodeEvidence(yield* issue(ownFormat, ownBound('server', bindings)));
  yield* send(Buffer.concat([evidence, encodeReady()]));
  yield* receive('ready');
}

/** The first half: both HELLOs, and what follows from them. */
export function* exchangeHellos({
  role,
  session,
  nonce,
  shows,
  accepts,
}: HandshakeOptions): HandshakeSteps<NegotiatedHandshake> {
  const ownFrame = encodeHello({ accepts, nonce });
  yield* send(ownFrame);
  const { header, body } = yield* receive('hello');
  const peerFrame = Buffer.concat([header, body]);
  const hello = parseHello(body);
  if (Buffer.compare(hello.nonce, nonce) === 0) {
    throw new AtlsError('atls-reflection', 'reading hello: the peer sent our own nonce');
  }
  // The verifier's order decides. Both lists are in the transcript, so nobody in between can shorten them.
  const ownFormat = hello.accepts.find((format) => shows.includes(format));
  if (ownFormat === undefined) {
    const lists = `the peer accepts [${hello.accepts.join(' ')}], this end shows [${shows.join(' ')}]`;
    throw new AtlsError('atls-no-common-format', `choosing a form of evidence: ${lists}`);
  }
  const transcript =
    role === 'client' ? transcriptHash(ownFrame, peerFrame) : transcriptHash(peerFrame, ownFrame);
  return { ownFormat, bindings: bindingsOf(session, transcript) };
}

function* receiveEvidence(accepts: readonly number[]): HandshakeSteps<Evidence> {
  const { body } = yield* receive('evidence');
  const evidence = parseEvidence(body);
  if (!accepts.includes(evidence.format)) {
    throw new AtlsError(
      'atls-evidence-format',
      `reading evidence: format ${evidence.format} is not accepted`,
    );
  }
  return evidence;
}

function ownBound(role: Role, bindings: Bindings): EvidenceBinding {
  return { binding: bindings[role], statement: bindings.statements[role] };
}

function* issue(format: number, bound: EvidenceBinding): HandshakeSteps<Evidence> {
  if (format === FORMAT_NONE) return { format, document: new Uint8Array(0) };
  return { format, document: yield { kind: 'issue', format, ...bound } };
}

function* validate(evidence: Evidence, binding: Uint8Array): HandshakeSteps {
  if (evidence.format !== FORMAT_NONE) {
    yield { kind: 'validate', evidence, binding };
  } else if (evidence.document.length > 0) {
    throw new AtlsError('atls-frame-malformed', 'reading evidence: of no format, yet not empty');
  }
}

function* send(bytes: Uint8Array): HandshakeSteps {
  yield { kind: 'send', bytes };
}

/** The one frame whose turn it is. An alert may come in its place at any time, and ends everything. */
function* receive(
  due: FrameKind,
): HandshakeSteps<{ readonly header: Uint8Array; readonly body: Uint8Array }> {
  const header = yield { kind: 'read', sizeBytes: HEADER_BYTES };
  const { kind, bodyBytes } = parseHeader(header);
  if (kind !== due && kind !== 'alert') {
    throw new AtlsError('atls-frame-order', `waiting for ${due}: got ${kind}`);
  }
  const body = yield { kind: 'read', sizeBytes: bodyBytes };
  if (kind === 'alert') throw errorFromAlert(parseAlert(body));
  return { header, body };
}

/**
 * What it means that bytes come while this end issues or validates, when nothing but an alert may: the turns
 * that read it, and always throw.
 */
export function* rejectUnexpectedBytes(): HandshakeSteps<never> {
  const type = (yield { kind: 'read', sizeBytes: 1 })[0];
  if (type !== FRAME.alert) {
    throw new AtlsError('atls-early-data', 'working on evidence: the peer sent more out of its turn');
  }
  const rest = yield { kind: 'read', sizeBytes: HEADER_BYTES - 1 };
  const { bodyBytes } = parseHeader(Buffer.from([type, ...rest]));
  throw errorFromAlert(parseAlert(yield { kind: 'read', sizeBytes: bodyBytes }));
}
