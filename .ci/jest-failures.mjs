/** Prints what failed, in full, and nothing of what passed. */
export default class Failures {
  onTestResult(_test, result) {
    if (result.failureMessage) process.stderr.write(`${result.testFilePath}\n${result.failureMessage}\n`);
  }
}
