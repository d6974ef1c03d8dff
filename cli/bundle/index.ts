/** The use cases of `cluster bundle`: build, fetch, verify, list and compare the bundles of this machine (internal/bundlebuild). */
export {
  buildContext,
  runBundleBuild,
  runBundleFetch,
  runBundleList,
  runBundleOutdated,
  runBundleSbom,
  runBundleVerify,
} from './commands.ts';
