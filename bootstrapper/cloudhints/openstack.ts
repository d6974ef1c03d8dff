import { z } from 'zod';
import type { CloudProvider } from './cloud-provider.ts';
import { type CloudHints, parseHints, parseJson, parseText } from './parse-hints.ts';

/** Products and asset tags of clouds that are made with OpenStack. */
const PRODUCTS: readonly string[] = ['OpenStack Nova', 'OpenStack Compute'];
const ASSET_TAGS: readonly string[] = ['OpenTelekomCloud', 'SAP CCloud VM', 'HUAWEICLOUD'];

const answer = z.object({ hostname: z.string(), availability_zone: z.string().nullish() });

/** OpenStack (Nova documentation, "Metadata"). The metadata has no region. */
export const openstack: CloudProvider = {
  isHere: ({ product, chassisAssetTag }) =>
    PRODUCTS.includes(product) || ASSET_TAGS.includes(chassisAssetTag),

  async read({ ask }): Promise<CloudHints> {
    const metadata = await ask({ path: '/openstack/2018-08-27/meta_data.json' });
    // Only the interface that is compatible with EC2 has the address; a cloud may lack it.
    return hintsFromOpenStack(metadata, await ask({ path: '/latest/meta-data/local-ipv4' }));
  },
};

/** @throws CloudHintsError `cloudhints-answer-invalid` */
export function hintsFromOpenStack(
  metadata: Uint8Array | undefined,
  address: Uint8Array | undefined,
): CloudHints {
  const { hostname: name, availability_zone: zone } = parseJson(metadata, answer);
  return parseHints({ name, address: parseText(address), region: '', zone: zone ?? '' });
}
