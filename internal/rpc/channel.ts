import { ChannelCredentials, Client as GrpcClient, type experimental, CallCredentials } from '@grpc/grpc-js';
import type { Socket } from 'node:net';
import { CodedError } from '../errors/index.ts';
import type { Upgrade } from './upgrade.ts';

/** Flow-control window: uploads of a bundle must not wait for a round trip per 64 KiB. */
export const FLOW_CONTROL_WINDOW = 4 * 1024 * 1024;
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const KEEPALIVE_MS = 10_000;

export interface ChannelOptions<P> {
  /** "host:port", IPv6 in brackets; or "unix:/path". */
  readonly endpoint: string;
  readonly upgrade: Upgrade<P>;
  /** How often a silent peer is asked for a sign of life, and how long it may take; 10 s unless said. */
  readonly keepaliveMs?: number;
}

/** One connection to one endpoint, made when first needed and made again when it broke. */
export class RpcChannel<P = unknown> implements Disposable {
  readonly endpoint: string;
  readonly grpc: GrpcClient;
  readonly #credentials: UpgradeCredentials<P>;

  constructor(options: ChannelOptions<P>) {
    this.endpoint = options.endpoint;
    this.#credentials = new UpgradeCredentials(options.upgrade);
    const keepaliveMs = options.keepaliveMs ?? KEEPALIVE_MS;
    this.grpc = new GrpcClient(options.endpoint, this.#credentials, {
      'grpc.enable_http_proxy': 0,
      'grpc.keepalive_time_ms': keepaliveMs,
      'grpc.keepalive_timeout_ms': keepaliveMs,
      'grpc.initial_reconnect_backoff_ms': 200,
      'grpc.max_reconnect_backoff_ms': 2_000,
      'grpc-node.flow_control_window': FLOW_CONTROL_WINDOW,
      'grpc.enable_channelz': 0,
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.service_config_disable_resolution': 1,
    });
  }

  /** Who answered the newest connection; undefined before the first. */
  get peer(): P | undefined {
    return this.#credentials.peer;
  }

  /** Why the newest attempt to connect failed; undefined after a success. */
  get connectError(): unknown {
    return this.#credentials.connectError;
  }

  [Symbol.dispose](): void {
    this.#credentials.close();
    this.grpc.close();
  }
}

/**
 * grpc-js as far as it opens itself for this (its `SecureConnector` is marked experimental; the minor version is
 * pinned and a test says what broke): the TCP socket comes from grpc, the secured one goes back.
 */
class UpgradeCredentials<P> extends ChannelCredentials {
  readonly #upgrade: Upgrade<P>;
  readonly #closed = new AbortController();
  peer: P | undefined;
  connectError: unknown;

  constructor(upgrade: Upgrade<P>) {
    super();
    this.#upgrade = upgrade;
  }

  close(): void {
    this.#closed.abort(new Error('the channel was closed'));
  }

  override _isSecure(): boolean {
    return true;
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(): experimental.SecureConnector {
    const none = CallCredentials.createEmpty();
    return {
      connect: (socket) => this.#connect(socket),
      waitForReady: () => Promise.resolve(),
      getCallCredentials: () => none,
      destroy: () => undefined,
    };
  }

  async #connect(socket: Socket): Promise<{ socket: Socket; secure: boolean }> {
    try {
      const upgraded = await this.#upgrade(socket, this.#closed.signal);
      this.peer = upgraded.peer;
      this.connectError = undefined;
      return { socket: upgraded.socket, secure: true };
    } catch (error) {
      socket.destroy();
      this.connectError = error;
      throw error instanceof CodedError ? new Error(String(error.code)) : error;
    }
  }
}
