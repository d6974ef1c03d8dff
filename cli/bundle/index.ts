/** The use cases of `cluster bundle`: build, fetch, verify and list the bundles of this machine (internal/bundlebuild). */
export { buildContext, runBundleBuild, runBundleFetch, runBundleList, runBundleVerify } from './commands.ts';
