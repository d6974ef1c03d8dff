import { z } from 'zod';
import type { CloudProvider } from './cloud-provider.ts';
import { type CloudHints, parseHints, parseJson } from './parse-hints.ts';

/** The newest version whose answer has no user data, which may have 64 KiB. */
const PATH = '/metadata/instance?api-version=2020-09-01';

const answer = z.object({
  compute: z.object({
    location: z.string(),
    /** The number of an availability zone, '' without one. */
    zone: z.string().regex(/^\d{0,2}$/),
    osProfile: z.object({ computerName: z.string() }).optional(),
  }),
  network: z.object({
    interface: z
      .array(z.object({ ipv4: z.object({ ipAddress: z.array(z.object({ privateIpAddress: z.string() })) }) }))
      .max(64),
  }),
});

/** Microsoft Azure (Azure documentation, "Azure Instance Metadata Service for virtual machines"). */
export const azure: CloudProvider = {
  // The asset tag of every Azure machine.
  isHere: ({ chassisAssetTag }) => chassisAssetTag === '7783-7084-3265-9085-8269-3286-77',

  async read({ ask }): Promise<CloudHints> {
    return hintsFromAzure(await ask({ path: PATH, headers: { metadata: 'true' } }));
  },
};

/**
 * Zones have the form "REGION-NUMBER", as in the node labels that Azure's own controllers for Kubernetes set.
 * @throws CloudHintsError `cloudhints-answer-invalid`
 */
export function hintsFromAzure(bytes: Uint8Array | undefined): CloudHints {
  const { compute, network } = parseJson(bytes, answer);
  const region = compute.location.toLowerCase();
  return parseHints({
    name: compute.osProfile?.computerName,
    address: network.interface[0]?.ipv4.ipAddress[0]?.privateIpAddress,
    region,
    zone: compute.zone === '' ? '' : `${region}-${compute.zone}`,
  });
}
