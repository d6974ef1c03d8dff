import { z } from 'zod';
import { certificates, count, fileSystem, name, part, unmetRequirement } from './fact-shapes.ts';

/** What a machine tells about itself, for a node whose agent, etcd, API server or network is down. */
export const localFacts = z.object({
  /** Name of the node; the host name of a machine that is no node. */
  node: name,
  isMember: z.boolean(),
  isControlPlane: z.boolean(),
  /** The systemd units that run on such a node, as systemd reports them. */
  units: part(
    z
      .array(
        z.object({
          name,
          /** Whether the node needs the unit. A unit that is not needed is a problem only when it has failed. */
          isNeeded: z.boolean(),
          /** "loaded", "not-found", "masked". */
          load: name,
          /** "active", "inactive", "failed", "activating". */
          active: name,
          sub: name,
          result: name,
          restarts: count,
        }),
      )
      .max(32),
  ),
  network: z.object({
    /** The address at which the cluster knows the node; undefined if the machine does not know it. */
    ownAddress: name.optional(),
    /** The addresses of interfaces that are up. */
    addresses: z.array(name).max(64),
    /** Whether each other control plane accepts a TCP connection of this machine. */
    peers: z.array(z.object({ node: name, endpoint: name, answer: part(z.object({})) })).max(64),
  }),
  fileSystems: z.array(fileSystem).max(16),
  certificates,
  /** The checks of `cluster preflight` that the machine does not pass. */
  requirements: part(z.array(unmetRequirement).max(256)),
});
