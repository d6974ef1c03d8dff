import { randomBytes, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../clock/index.ts';
import type { Upgrade, Upgraded } from '../rpc/index.ts';
import {
  PendingConnectionLimit,
  PENDING_CONNECTION_LIMITS,
  type PendingConnectionLimits,
} from './pending-connection-limit.ts';
import { alertFor } from './alerts.ts';
import { EXPORTER_BYTES, EXPORTER_LABEL, type Role, type Session } from './binding.ts';
import { Deadline } from './deadline.ts';
import { HandshakeDriver } from './driver.ts';
import { AtlsError } from './errors.ts';
import { exchangeEvidence, exchangeHellos } from './handshake.ts';
import type { TlsKeySource } from './tls-keys.ts';
import { attestedPeer, unattestedPeer, type AttestedPeer, type UnattestedPeer } from './peer.ts';
import { establishTls, type TlsConnection } from './tls.ts';
import {
  formatsOf,
  type Formats,
  type MutualTrust,
  type OneWayAcceptTrust,
  type OneWayShowTrust,
  type Trust,
} from './trust.ts';
import { ConnectionAttestation } from './connection-attestation.ts';
import { NONCE_BYTES } from './wire.ts';

/** Timeouts of one connection. `wholeMs` includes the time in the queue for a TPM. */
export interface AtlsTimers {
  readonly tlsMs: number;
  readonly helloMs: number;
  readonly wholeMs: number;
  /** Time after a refusal in which the peer can read the alert. */
  readonly lingerMs: number;
}

/** The default timeouts. */
export const ATLS_TIMERS: AtlsTimers = { tlsMs: 3_000, helloMs: 3_000, wholeMs: 20_000, lingerMs: 500 };

/** The configuration of one end. */
export interface AtlsOptions<T extends Trust = Trust> {
  readonly trust: T;
  /**
   * The cluster and service that this connection is for, e.g. "CLUSTER-ID/joinservice". Equal at both ends and never sent, so
   * that evidence for one service is invalid for every other one.
   */
  readonly context: string;
  readonly keys: TlsKeySource;
  readonly clock: Clock;
  /**
   * An additional check of the peer's certificate, e.g. that the cluster CA issued it. Throws to refuse the
   * certificate.
   */
  readonly checkCertificate?: (certificate: X509Certificate) => void;
  readonly timers?: AtlsTimers;
}

/** The configuration of a server. */
interface AtlsServerOptions<T extends Trust = Trust> extends AtlsOptions<T> {
  readonly limits?: PendingConnectionLimits;
}

/** The modes in which this end verifies its peer. */
export type VerifyingTrust = MutualTrust | OneWayAcceptTrust;
type Peer = AttestedPeer | UnattestedPeer;

/**
 * Creates the client's end of attested TLS. Throws AtlsError `atls-config` for incomplete trust; the upgrade rejects
 * with AtlsError.
 */
export function atlsClientUpgrade(options: AtlsOptions<VerifyingTrust>): Upgrade<AttestedPeer>;
export function atlsClientUpgrade(options: AtlsOptions<OneWayShowTrust>): Upgrade<UnattestedPeer>;
/** See the overloads. */
export function atlsClientUpgrade(options: AtlsOptions): Upgrade<Peer> {
  const end = new AtlsEnd('client', options);
  return (tcp, signal) => end.upgrade(tcp, signal);
}

/** Creates the server's end of attested TLS, which also limits the pending connections. */
export function atlsServerUpgrade(options: AtlsServerOptions<VerifyingTrust>): Upgrade<AttestedPeer>;
export function atlsServerUpgrade(options: AtlsServerOptions<OneWayShowTrust>): Upgrade<UnattestedPeer>;
/** See the overloads. */
export function atlsServerUpgrade(options: AtlsServerOptions): Upgrade<Peer> {
  const end = new AtlsEnd('server', options);
  const limit = new PendingConnectionLimit(options.limits ?? PENDING_CONNECTION_LIMITS);
  return async (tcp, signal) => {
    using _slot = limit.acquire(tcp.remoteAddress ?? '');
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
    const { clock } = this.#options;
    using deadline = new Deadline({ clock, signal, what: 'TLS handshake failed', ms: this.#timers.tlsMs });
    let secured: TlsConnection | undefined;
    try {
      const startMs = clock.monotonicMs();
      const keys = await this.#options.keys.current();
      secured = await establishTls(this.#role, tcp, keys, deadline.signal);
      this.#checkCertificate(secured.peerCertificate);
      const peer = await this.#attest(secured, keys.spki, deadline, startMs);
      return { socket: secured.socket, peer };
    } catch (error) {
      const reason = signal.aborted || error instanceof AtlsError ? error : internalError(error);
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
      throw new AtlsError('atls-tls-certificate', "checking the peer's certificate", { cause: error });
    }
  }

  async #attest(
    secured: TlsConnection,
    ownSpki: Uint8Array,
    deadline: Deadline,
    startMs: number,
  ): Promise<Peer> {
    const { socket } = secured;
    const { trust, clock } = this.#options;
    const { shows, accepts } = this.#formats;
    const session = sessionOf(this.#role, secured, ownSpki, this.#context);
    const options = { role: this.#role, session, nonce: randomBytes(NONCE_BYTES), shows, accepts };
    const attestation = new ConnectionAttestation({
      trust,
      formats: this.#formats,
      nowMs: () => clock.nowMs(),
    });
    using driver = new HandshakeDriver(socket, attestation, deadline.signal);
    deadline.next('waiting for HELLO', this.#timers.helloMs);
    const agreed = await driver.run(exchangeHellos(options));
    deadline.next('attesting', this.#timers.wholeMs - (clock.monotonicMs() - startMs));
    await driver.run(exchangeEvidence(options, agreed));
    await driver.flush();
    const known = agreed.bindings.session;
    if (trust.trust === 'one-way-show') return unattestedPeer(known);
    if (attestation.verdict === undefined) throw new AtlsError('atls-internal', 'attesting: no verdict');
    return attestedPeer(attestation.verdict, known);
  }

  /** Sends the alert and gives the peer time to read it: a TCP reset would discard it. */
  async #hangUp(socket: TLSSocket, reason: AtlsError, signal: AbortSignal): Promise<void> {
    const alert = alertFor(reason.code);
    if (alert !== undefined && socket.writable) {
      const { clock } = this.#options;
      using linger = new Deadline({
        clock,
        signal,
        what: 'closing the connection',
        ms: this.#timers.lingerMs,
      });
      socket.end(alert).resume();
      await once(socket, 'close', { signal: linger.signal }).catch(() => undefined); // closed or timed out: the socket is destroyed in both cases
    }
    socket.destroy();
  }
}

function sessionOf(role: Role, secured: TlsConnection, ownSpki: Uint8Array, context: Uint8Array): Session {
  const { socket, peerSpki } = secured;
  const [serverSpki, clientSpki] = role === 'server' ? [ownSpki, peerSpki] : [peerSpki, ownSpki];
  const exportKey = (transcript: Uint8Array): Uint8Array =>
    socket.exportKeyingMaterial(EXPORTER_BYTES, EXPORTER_LABEL, Buffer.from(transcript));
  return { context, serverSpki, clientSpki, exportKey };
}

function internalError(error: unknown): AtlsError {
  return new AtlsError('atls-internal', 'attesting', { cause: error });
}
