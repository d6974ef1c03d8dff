import { ChannelCredentials, Client as GrpcClient, type experimental, CallCredentials } from '@grpc/grpc-js';
import type { Socket } from 'node:net';
import { CodedError } from '../errors/index.ts';
import type { Upgrade } from './upgrade.ts';

/** HTTP/2 flow-control window: the upload of a bundle must not wait for a round trip per 64 KiB. */
export const FLOW_CONTROL_WINDOW = 4 * 1024 * 1024;
/** The largest message that either end accepts. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const KEEPALIVE_MS = 10_000;

/** The endpoint of an `RpcChannel`, and the authentication of its connections. */
interface ChannelOptions<P> {
  /** "host:port", IPv6 in brackets; or "unix:/path". */
  readonly endpoint: string;
  readonly upgrade: Upgrade<P>;
  /** How often an idle connection is pinged, and how long the answer may take; default: 10 s. */
  readonly keepaliveMs?: number;
}

/** One connection to one endpoint, opened on first use and opened again after it broke. */
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

  /** The peer of the newest connection; undefined before the first. */
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
 * Hooks the upgrade into grpc-js: grpc opens the TCP socket, the upgrade returns the authenticated one. The hook
 * (`SecureConnector`) is marked experimental, so the minor version is pinned; internal/rpc/rpc.test.ts fails if it changes.
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
