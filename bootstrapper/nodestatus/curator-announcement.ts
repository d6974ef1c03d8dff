import type { Clock } from '../../internal/clock/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { CuratorConnection } from '../curatorclient/index.ts';
import type { RoleValues } from '../roleserve/index.ts';

/** If the curator is not serving this long after the agent started, the node’s status no longer names its endpoint. */
const LINGER_MS = 2 * 60_000;
const ASK_MS = 10_000;

/**
 * Decides which curator endpoint this node puts into its status. A restarted agent does not know yet whether
 * its curator, which kept running, still serves. Until then the agent repeats the endpoint of its last
 * status. Otherwise each restart would remove the curator from all directories.
 */
export class CuratorAnnouncement {
  readonly #reads: Pick<RoleValues, 'localControlPlane' | 'localRoles'>;
  readonly #clock: Clock;
  /** The announced endpoint; undefined before the first call. */
  #last: string | undefined;
  #unknownSinceMs: number | undefined;

  constructor(options: {
    readonly reads: Pick<RoleValues, 'localControlPlane' | 'localRoles'>;
    readonly clock: Clock;
  }) {
    this.#reads = options.reads;
    this.#clock = options.clock;
  }

  /** "host:port", or empty for none. */
  async endpoint(
    client: CuratorConnection['client'],
    { nodeId, signal }: { readonly nodeId: string; readonly signal: AbortSignal },
  ): Promise<string> {
    const nowMs = this.#clock.monotonicMs();
    const serving = currentValue(this.#reads.localControlPlane);
    if (serving !== undefined) {
      this.#unknownSinceMs = undefined;
      return (this.#last = serving.curatorEndpoint);
    }
    if (currentValue(this.#reads.localRoles)?.has('ConsensusMember') === false) return (this.#last = '');
    this.#unknownSinceMs ??= nowMs;
    if (nowMs - this.#unknownSinceMs > LINGER_MS) return '';
    this.#last ??= await announcedBefore(client, nodeId, signal);
    return this.#last;
  }
}

async function announcedBefore(
  client: CuratorConnection['client'],
  nodeId: string,
  signal: AbortSignal,
): Promise<string> {
  const { node } = await client.getNode({ node: nodeId }, { signal, timeoutMs: ASK_MS });
  return node?.status?.curatorEndpoint ?? '';
}
