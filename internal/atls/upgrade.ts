import { randomBytes, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { TimeoutError, withTimeout } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import type { Upgrade, Upgraded } from '../rpc/index.ts';
import { Admission, ADMISSION_LIMITS, type AdmissionLimits } from './admission.ts';
import { alertFor } from './alerts.ts';
import { EXPORTER_BYTES, EXPORTER_LABEL, type Role, type Session } from './binding.ts';
import { HandshakeDriver } from './driver.ts';
import { AtlsError } from './errors.ts';
import { attest, greet } from './handshake.ts';
import type { TlsKeySource } from './keys.ts';
import { attestedPeer, unprovenPeer, type AttestedPeer, type UnprovenPeer } from './peer.ts';
import { secure, type Secured } from './tls.ts';
import {
  formatsOf,
  type Formats,
  type MutualTrust,
  type OneWayAcceptTrust,
  type OneWayShowTrust,
  type Trust,
} from './trust.ts';
import { AttestationWork } from './work.ts';
import { NONCE_BYTES } from './wire.ts';

/** How long a peer may keep this end waiting. The whole includes the queue before a TPM. */
export interface AtlsTimers {
  readonly tlsMs: number;
  readonly helloMs: number;
  readonly wholeMs: number;
  /** After a refusal: for the peer to read why. */
  readonly lingerMs: number;
}

export const ATLS_TIMERS: AtlsTimers = { tlsMs: 3_000, helloMs: 3_000, wholeMs: 20_000, lingerMs: 500 };

export interface AtlsOptions<T extends Trust = Trust> {
  readonly trust: T;
  /**
   * Which cluster and service this connection is for, e.g. "CLUSTER-ID/joinservice". Configured alike at both ends
   * and never sent: evidence made for one service is wrong for every other.
   */
  readonly context: string;
  readonly keys: TlsKeySource;
  readonly clock: Clock;
  /** Beside the evidence: throws when the peer's certificate must be one of the cluster CA and is not. */
  readonly checkCertificate?: (certificate: X509Certificate) => void;
  readonly timers?: AtlsTimers;
}

export interface AtlsServerOptions<T extends Trust = Trust> extends AtlsOptions<T> {
  readonly limits?: AdmissionLimits;
}

export type ProvingTrust = MutualTrust | OneWayAcceptTrust;
type Peer = AttestedPeer | UnprovenPeer;

/** The client's end. Throws `atls-config` at once when the trust is incomplete; rejects with an `AtlsError`. */
export function atlsClientUpgrade(options: AtlsOptions<ProvingTrust>): Upgrade<AttestedPeer>;
export function atlsClientUpgrade(options: AtlsOptions<OneWayShowTrust>): Upgrade<UnprovenPeer>;
export function atlsClientUpgrade(options: AtlsOptions): Upgrade<Peer> {
  const end = new AtlsEnd('client', options);
  return (tcp, signal) => end.upgrade(tcp, signal);
}

/** The server's end: the same, behind a limit on how many may be pending. */
export function atlsServerUpgrade(options: AtlsServerOptions<ProvingTrust>): Upgrade<AttestedPeer>;
export function atlsServerUpgrade(options: AtlsServerOptions<OneWayShowTrust>): Upgrade<UnprovenPeer>;
export function atlsServerUpgrade(options: AtlsServerOptions): Upgrade<Peer> {
  const end = new AtlsEnd('server', options);
  const admission = new Admission(options.limits ?? ADMISSION_LIMITS);
  return async (tcp, signal) => {
    using _slot = admission.enter(tcp.remoteAddress ?? '');
    return await end.upgrade(tcp, signal);
  };
}

class AtlsEnd {
  readonly #role: Role;
  readonly #options: AtlsOptions;
  readonly #formats: Formats;
  readonly #context: Uint8Array;
  readonly #timers: AtlsTimers;

  constructor(role: Role, options: AtlsOptions) {
    if (options.context === '')
      throw new AtlsError('atls-config', 'configuring attested TLS: the context is empty');
    this.#role = role;
    this.#options = options;
    this.#formats = formatsOf(options.trust);
    this.#context = Buffer.from(options.context, 'utf8');
    this.#timers = options.timers ?? ATLS_TIMERS;
  }

  async upgrade(tcp: Socket, signal: AbortSignal): Promise<Upgraded<Peer>> {
    let secured: Secured | undefined;
    try {
      return await this.#within('attesting', this.#timers.wholeMs, signal, async (whole) => {
        const keys = await this.#options.keys.current();
        secured = await this.#within('securing', this.#timers.tlsMs, whole, (brief) =>
          secure(this.#role, tcp, keys, brief),
        );
        this.#checkCertificate(secured.peerCertificate);
        const peer = await this.#attest(secured, keys.spki, whole);
        return { socket: secured.socket, peer };
      });
    } catch (error) {
      const reason = signal.aborted || error instanceof AtlsError ? error : asDefect(error);
      if (secured !== undefined && reason instanceof AtlsError)
        await this.#hangUp(secured.socket, reason, signal);
      tcp.destroy();
      throw reason;
    }
  }

  #checkCertificate(certificate: X509Certificate): void {
    try {
      this.#options.checkCertificate?.(certificate);
    } catch (error) {
      throw new AtlsError('atls-tls-certificate', 'checking the peer certificate', { cause: error });
    }
  }

  async #attest(secured: Secured, ownSpki: Uint8Array, signal: AbortSignal): Promise<Peer> {
    const { socket, peerSpki } = secured;
    const { trust, clock } = this.#options;
    const { shows, accepts } = this.#formats;
    const session = sessionOf(this.#role, secured, ownSpki, this.#context);
    const options = { role: this.#role, session, nonce: randomBytes(NONCE_BYTES), shows, accepts };
    const work = new AttestationWork({ trust, formats: this.#formats, nowMs: () => clock.nowMs() });
    using driver = new HandshakeDriver(socket, work);
    const agreed = await this.#within('waiting for HELLO', this.#timers.helloMs, signal, (brief) =>
      driver.run(greet(options), brief),
    );
    await driver.run(attest(options, agreed), signal);
    await driver.flush(signal);
    if (trust.trust === 'one-way-show') return unprovenPeer({ tlsSpki: peerSpki });
    if (work.verdict === undefined) throw new AtlsError('atls-internal', 'attesting: no verdict');
    return attestedPeer(work.verdict, { tlsSpki: peerSpki });
  }

  /** Tells the peer one code, and gives it a moment to read it: a reset would overtake the alert. */
  async #hangUp(socket: TLSSocket, reason: AtlsError, signal: AbortSignal): Promise<void> {
    const alert = alertFor(reason.code);
    if (alert !== undefined && socket.writable) {
      socket.end(alert).resume();
      const gone = once(socket, 'close');
      await this.#within('hanging up', this.#timers.lingerMs, signal, () => gone).catch(() =>
        socket.destroy(),
      );
    }
    socket.destroy();
  }

  async #within<R>(
    what: string,
    ms: number,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<R>,
  ): Promise<R> {
    try {
      return await withTimeout({ what, ms, clock: this.#options.clock, signal }, work);
    } catch (error) {
      throw error instanceof TimeoutError ? new AtlsError('atls-timeout', error.message) : error;
    }
  }
}

function sessionOf(role: Role, secured: Secured, ownSpki: Uint8Array, context: Uint8Array): Session {
  const { socket, peerSpki } = secured;
  const [serverSpki, clientSpki] = role === 'server' ? [ownSpki, peerSpki] : [peerSpki, ownSpki];
  const exportKey = (transcript: Uint8Array): Uint8Array =>
    socket.exportKeyingMaterial(EXPORTER_BYTES, EXPORTER_LABEL, Buffer.from(transcript));
  return { context, serverSpki, clientSpki, exportKey };
}

function asDefect(error: unknown): AtlsError {
  return new AtlsError('atls-internal', 'attesting', { cause: error });
}
