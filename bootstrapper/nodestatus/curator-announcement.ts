import type { Clock } from '../../internal/clock/index.ts';
import { currentValue, type Readable } from '../../internal/event/index.ts';
import type { CuratorConnection } from '../curatorclient/index.ts';
import type { LocalControlPlane, RoleSet } from '../roleserve/index.ts';

/** A control plane comes back within this, or it does not: then it is not announced any more. */
const LINGER_MS = 2 * 60_000;
const ASK_MS = 10_000;

/**
 * Where this node says that its curator is. An agent that has just started does not know yet that its curator, which has
 * outlived it, serves: until it does it goes on saying what the cluster has from it. Otherwise every start of an agent would
 * take a curator out of all directories and put it back.
 */
export class CuratorAnnouncement {
  readonly #reads: AnnouncementReads;
  readonly #clock: Clock;
  /** undefined: nobody has asked yet. */
  #last: string | undefined;
  #unknownSinceMs: number | undefined;

  constructor({ reads, clock }: { readonly reads: AnnouncementReads; readonly clock: Clock }) {
    this.#reads = reads;
    this.#clock = clock;
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

export interface AnnouncementReads {
  readonly localControlPlane: Readable<LocalControlPlane | undefined>;
  readonly localRoles: Readable<RoleSet | undefined>;
}
