// The ratings of a video are shown once it has been played.
"use strict";
(() => {
  const video = document.getElementById("rated-video");
  const show = document.getElementById("show-ratings");
  if (!video || !show) return;
  const enough = 0.9;
  video.addEventListener("timeupdate", () => {
    let played = 0;
    // jumps are not in these ranges
    for (let n = 0; n < video.played.length; n += 1) played += video.played.end(n) - video.played.start(n);
    if (video.duration && played >= enough * video.duration) show.disabled = false;
  });
})();
