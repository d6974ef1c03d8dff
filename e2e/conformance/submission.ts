import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { SpecResult } from './results.ts';

/** The name of this product in a submission. */
const PRODUCT = 'cluster';

/** `<directory>/v1.37/cluster`, where a submission of this release has its files. */
export function submissionDirectory(directory: string, kubernetesVersion: string): string {
  return join(directory, kubernetesVersion.split('.', 2).join('.'), PRODUCT);
}

/**
 * Adds the files that a submission has beside `e2e.log` and `junit_01.xml`: `PRODUCT.yaml`, a draft whose addresses the vendor
 * fills in, and `README.md` with the commands that repeat the result. `results.json` is for this repository.
 */
export async function writeSubmission(
  directory: string,
  run: {
    readonly kubernetesVersion: string;
    readonly productVersion: string;
    readonly results: readonly SpecResult[];
  },
): Promise<void> {
  await mkdir(directory, { recursive: true });
  const files = {
    'PRODUCT.yaml': productFile(run.productVersion),
    'README.md': readme(run.kubernetesVersion),
    'results.json': `${JSON.stringify(run.results, undefined, 1)}\n`,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
}

/** The fields are those of https://github.com/cncf/k8s-conformance/blob/master/instructions.md. */
export function productFile(version: string): string {
  return stringify({
    vendor: '<name of the vendor>',
    name: PRODUCT,
    version: `v${version}`,
    website_url: '<address of the website>',
    repo_url: '<address of the repository>',
    documentation_url: '<address of the documentation>',
    product_logo_url: '<address of an SVG logo>',
    type: 'distribution',
    description: 'Turns Linux machines into an attested Kubernetes cluster.',
    contact_email_address: '<address for questions>',
  });
}

function readme(kubernetesVersion: string): string {
  const minor = kubernetesVersion.slice(1).split('.', 2).join('.');
  return `# Conformance of ${PRODUCT} with Kubernetes ${minor}

On a Debian machine, as root, in a checkout of the repository:

    .ci/setup
    npm run conformance -- --release ${minor}

The command makes a cluster of three control planes and two workers with ${kubernetesVersion}, builds the upstream tests and their images
from the module \`k8s.io/kubernetes@${kubernetesVersion}\`, runs all specs with the tag \`[Conformance]\`, and leaves \`e2e.log\` and
\`junit_01.xml\` in \`dist/conformance\`.
`;
}
